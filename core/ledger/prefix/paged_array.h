#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <vector>

namespace kvpool {

// PagedArray is an array whose elements come a page at a time, when they are first wanted, and
// never move: it costs nothing until it is used, and no call of it takes time that grows with it.
template <typename T, size_t kPageSize>
class PagedArray {
 public:
  static_assert(std::has_single_bit(kPageSize));

  // Elements begin as `fill`.
  explicit PagedArray(const T& fill = T()) : fill_(fill) {}

  PagedArray(const PagedArray&) = delete;
  PagedArray& operator=(const PagedArray&) = delete;

  // Makes the page of that element, unless there is one.
  void Make(size_t index) {
    const size_t page = index / kPageSize;
    if (page >= pages_.size()) pages_.resize(page + 1);
    if (pages_[page] != nullptr) return;
    pages_[page] = std::make_unique_for_overwrite<T[]>(kPageSize);
    std::fill_n(pages_[page].get(), kPageSize, fill_);
  }
  bool has(size_t index) const {
    return index / kPageSize < pages_.size() && pages_[index / kPageSize] != nullptr;
  }

  // These require has(index).
  T& operator[](size_t index) { return pages_[index / kPageSize][index % kPageSize]; }
  const T& operator[](size_t index) const { return pages_[index / kPageSize][index % kPageSize]; }

 private:
  const T fill_;
  std::vector<std::unique_ptr<T[]>> pages_;
};

}  // namespace kvpool
