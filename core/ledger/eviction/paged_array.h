#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace kvpool {

// PagedArray is an array of no fixed length whose elements are made, with their default value, a
// page at a time, when first asked for. Elements never move.
//
// What was never asked for costs a pointer a page below the highest index, so a pool costs what is
// cached in it, and growth never copies what there is.
template <typename T, size_t kPageSize>
class PagedArray {
 public:
  PagedArray() = default;
  PagedArray(const PagedArray&) = delete;
  PagedArray& operator=(const PagedArray&) = delete;

  // The element, which is made where it is not there yet.
  T& Make(size_t index) {
    const size_t page = index / kPageSize;
    if (page >= pages_.size()) pages_.resize(page + 1);
    if (pages_[page] == nullptr) {
      pages_[page] = std::make_unique<Page>();
      ++page_count_;
    }
    return (*pages_[page])[index % kPageSize];
  }

  // Require an element that was made.
  T& operator[](size_t index) { return (*pages_[index / kPageSize])[index % kPageSize]; }
  const T& operator[](size_t index) const {
    return (*pages_[index / kPageSize])[index % kPageSize];
  }

  // A hint that makes the element, if there is one, be on its way from memory.
  void Prefetch(size_t index) const {
    if (has(index)) __builtin_prefetch(&(*this)[index]);
  }

  bool has(size_t index) const {
    const size_t page = index / kPageSize;
    return page < pages_.size() && pages_[page] != nullptr;
  }
  // What it has allocated.
  size_t size_bytes() const {
    return page_count_ * sizeof(Page) + pages_.capacity() * sizeof(pages_[0]);
  }

 private:
  using Page = std::array<T, kPageSize>;

  std::vector<std::unique_ptr<Page>> pages_;
  size_t page_count_ = 0;
};

}  // namespace kvpool
