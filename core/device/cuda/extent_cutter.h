#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kvpool::cuda {

// Some or all of one extent.
struct ExtentPiece {
  size_t extent = 0;    // Which one.
  uint64_t offset = 0;  // From its start.
  uint64_t size = 0;
};

// ExtentCutter cuts Extents or CopyExtents into what is done at once: pieces of as many bytes, and
// as many of them, as staging memory takes. Not thread-safe.
template <typename AnyExtent>
class ExtentCutter {
 public:
  explicit ExtentCutter(std::span<const AnyExtent> extents) : extents_(extents) {}

  // Calls `add` for the next pieces, of at most `max_bytes` and `max_pieces` in all: for none at
  // the end. Leaves out what is empty.
  template <typename Add>
  void Cut(uint64_t max_bytes, size_t max_pieces, Add add) {
    uint64_t sum = 0;
    for (size_t pieces = 0; pieces < max_pieces && sum < max_bytes;) {
      if (index_ == extents_.size()) return;
      const uint64_t whole = extents_[index_].size_bytes;
      const uint64_t size = std::min(whole - done_, max_bytes - sum);
      if (size > 0) {
        add(ExtentPiece{.extent = index_, .offset = done_, .size = size});
        ++pieces;
      }
      sum += size;
      done_ += size;
      if (done_ == whole) {
        ++index_;
        done_ = 0;
      }
    }
  }

 private:
  const std::span<const AnyExtent> extents_;
  size_t index_ = 0;
  uint64_t done_ = 0;  // Of the extent at index_.
};

}  // namespace kvpool::cuda
