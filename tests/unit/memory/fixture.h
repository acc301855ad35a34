#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <vector>

#include "core/memory/memory.h"
#include "tests/support/catch.h"
#include "tests/support/fake_device.h"
#include "tests/support/outcome.h"
#include "tests/unit/memory/specs.h"

namespace kvpool::test {

// A pool's memory on a fake device, all of whose bytes are 0xA5, the gaps between sides too.
struct Fixture {
  explicit Fixture(const PoolSpec& spec) {
    const PoolLayout layout = Plan(spec);
    const std::vector<Device*> devices(layout.num_shards(), &device);
    auto created = Memory::Create(layout, devices);
    REQUIRE(created.ok());
    memory = *std::move(created);
    if (layout.shard_bytes > (uint64_t{1} << 24)) return;
    for (const auto& region : memory->regions()) {
      std::ranges::fill(FakeDevice::Bytes(*region), std::byte{0xA5});
    }
  }

  std::vector<std::byte> Snapshot(size_t shard = 0) const {
    const auto bytes = FakeDevice::Bytes(*memory->regions()[shard]);
    return {bytes.begin(), bytes.end()};
  }

  FakeDevice device;
  std::unique_ptr<Memory> memory;
};

inline std::vector<BlockId> Blocks(std::initializer_list<uint32_t> ids) {
  std::vector<BlockId> blocks;
  for (const uint32_t id : ids) blocks.push_back(BlockId{id});
  return blocks;
}

inline absl::Status Write(Memory& memory, const PieceRange& range, std::byte value) {
  const std::vector<std::byte> bytes(range.size_bytes, value);
  Outcome outcome;
  memory.Write(range, bytes, outcome.Take());
  return outcome.status();
}

inline std::vector<std::byte> Read(Memory& memory, const PieceRange& range) {
  std::vector<std::byte> bytes(range.size_bytes);
  Outcome outcome;
  memory.Read(range, bytes, outcome.Take());
  REQUIRE(outcome.ok());
  return bytes;
}

}  // namespace kvpool::test
