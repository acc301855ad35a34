#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/device/cuda/cuda_abi.h"
#include "core/device/device.h"

namespace kvpool::cuda {

// ExtentCutter cuts extents into what is done at once: pieces of as many bytes, and as many of
// them, as staging memory takes. Not thread-safe.
class ExtentCutter {
 public:
  ExtentCutter(std::span<const Extent> extents, DevicePointer base)
      : extents_(extents), base_(base) {}

  // Some or all of one extent.
  struct Piece {
    DevicePointer at = 0;
    uint64_t size = 0;
    size_t extent = 0;  // Which one.
  };

  // Calls `add` for the next pieces, of at most `max_bytes` and `max_pieces` in all, and returns
  // their bytes: 0 at the end. Leaves out what is empty.
  template <typename Add>
  uint64_t Cut(uint64_t max_bytes, size_t max_pieces, Add add) {
    uint64_t sum = 0;
    for (size_t pieces = 0; pieces < max_pieces && sum < max_bytes;) {
      if (index_ == extents_.size()) break;
      const Extent& extent = extents_[index_];
      const uint64_t size = std::min(extent.size_bytes - done_, max_bytes - sum);
      if (size > 0) {
        add(Piece{.at = base_ + extent.offset_bytes + done_, .size = size, .extent = index_});
        ++pieces;
      }
      sum += size;
      done_ += size;
      if (done_ == extent.size_bytes) {
        ++index_;
        done_ = 0;
      }
    }
    return sum;
  }

 private:
  const std::span<const Extent> extents_;
  const DevicePointer base_;
  size_t index_ = 0;
  uint64_t done_ = 0;  // Of the extent at index_.
};

}  // namespace kvpool::cuda
