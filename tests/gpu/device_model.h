#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "core/device/device.h"
#include "tests/gpu/waiting_device.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool::test {

// Random operations on two regions of a device, against plain vectors.
class DeviceModel {
 public:
  static constexpr uint64_t kSize = 300'000;

  DeviceModel(Device& device, uint64_t seed) : device_(device), random_(seed) {
    for (int i = 0; i < 2; ++i) {
      auto region = device.Allocate(kSize, "model");
      REQUIRE(region.ok());
      regions_.push_back(*std::move(region));
      bytes_.emplace_back(kSize);
    }
  }

  void Step() {
    const std::vector<Extent> extents = RandomExtents();
    const size_t on = random_.Below(2);
    switch (random_.Below(4)) {
      case 0:
        return Fill(on, extents);
      case 1:
        return Copy(on, extents);
      case 2:
        return Write(on, extents);
      default:
        return Read(on, extents);
    }
  }

  // Compares every byte.
  void Check() {
    for (size_t i = 0; i < 2; ++i) REQUIRE(device_.ReadAll(*regions_[i]) == bytes_[i]);
  }

 private:
  // Up to 40 that do not overlap, in any order; some empty, some touching.
  std::vector<Extent> RandomExtents() {
    std::vector<Extent> extents;
    uint64_t offset = 0;
    const uint32_t count = random_.Below(40);
    for (uint32_t i = 0; i < count; ++i) {
      if (!random_.OneIn(4)) offset += random_.Below(3000);
      uint64_t size = random_.OneIn(3) ? 16 * random_.Below(300) : random_.Below(4000);
      if (random_.OneIn(8)) size = 0;
      if (offset + size > kSize) break;
      extents.push_back({.offset_bytes = offset, .size_bytes = size});
      offset += size;
    }
    for (size_t i = extents.size(); i > 1; --i) {
      std::swap(extents[i - 1], extents[random_.Below(static_cast<uint32_t>(i))]);
    }
    return extents;
  }

  static uint64_t SumOf(const std::vector<Extent>& extents) {
    uint64_t sum = 0;
    for (const Extent& extent : extents) sum += extent.size_bytes;
    return sum;
  }

  auto At(size_t on, uint64_t offset) {
    return bytes_[on].begin() + static_cast<ptrdiff_t>(offset);
  }

  void Fill(size_t on, const std::vector<Extent>& extents) {
    const auto value = static_cast<uint8_t>(random_.Below(256));
    REQUIRE(device_.Fill(*regions_[on], extents, value).ok());
    for (const Extent& extent : extents) {
      std::fill_n(At(on, extent.offset_bytes), extent.size_bytes, std::byte{value});
    }
  }

  // To the other region, at a distance that may put words out of step.
  void Copy(size_t on, const std::vector<Extent>& extents) {
    const uint64_t shift = random_.OneIn(3) ? 16 * random_.Below(100) : random_.Below(100);
    std::vector<CopyExtent> copies;
    for (const Extent& extent : extents) {
      if (extent.offset_bytes + extent.size_bytes + shift > kSize) continue;
      copies.push_back({.source_bytes = extent.offset_bytes,
                        .destination_bytes = extent.offset_bytes + shift,
                        .size_bytes = extent.size_bytes});
    }
    REQUIRE(device_.Copy(*regions_[on], *regions_[1 - on], copies).ok());
    for (const CopyExtent& copy : copies) {
      std::copy_n(At(on, copy.source_bytes), copy.size_bytes, At(1 - on, copy.destination_bytes));
    }
  }

  void Write(size_t on, const std::vector<Extent>& extents) {
    std::vector<std::byte> bytes(SumOf(extents));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_.Below(256));
    REQUIRE(device_.Write(*regions_[on], extents, bytes).ok());
    auto from = bytes.begin();
    for (const Extent& extent : extents) {
      std::copy_n(from, extent.size_bytes, At(on, extent.offset_bytes));
      from += static_cast<ptrdiff_t>(extent.size_bytes);
    }
  }

  void Read(size_t on, const std::vector<Extent>& extents) {
    std::vector<std::byte> bytes(SumOf(extents));
    REQUIRE(device_.Read(*regions_[on], extents, bytes).ok());
    std::vector<std::byte> expected;
    for (const Extent& extent : extents) {
      const auto begin = At(on, extent.offset_bytes);
      expected.insert(expected.end(), begin, begin + static_cast<ptrdiff_t>(extent.size_bytes));
    }
    REQUIRE(bytes == expected);
  }

  WaitingDevice device_;
  Random random_;
  std::vector<std::unique_ptr<Region>> regions_;
  std::vector<std::vector<std::byte>> bytes_;
};

}  // namespace kvpool::test
