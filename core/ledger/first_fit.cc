#include "core/ledger/first_fit.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/check.h"

namespace kvpool {

void FirstFit::Add(uint64_t number) {
  KVPOOL_CHECK(numbers_.empty() || numbers_.back() < number);
  if (numbers_.size() == capacity_) Rebuild();
  numbers_.push_back(number);
  has_left_.push_back(false);
  ++size_;
}

void FirstFit::SetNeed(uint64_t number, std::optional<uint32_t> need) {
  Set(PlaceOf(number), need.value_or(kNever));
}

void FirstFit::Remove(uint64_t number) {
  const size_t place = PlaceOf(number);
  Set(place, kNever);
  has_left_[place] = true;
  --size_;
}

std::optional<uint64_t> FirstFit::Find(uint32_t room) const {
  if (capacity_ == 0 || least_[1] > room) return std::nullopt;
  size_t node = 1;
  while (node < capacity_) {
    node *= 2;
    if (least_[node] > room) ++node;
  }
  return numbers_[node - capacity_];
}

size_t FirstFit::PlaceOf(uint64_t number) const {
  const auto found = std::ranges::lower_bound(numbers_, number);
  const auto place = static_cast<size_t>(found - numbers_.begin());
  KVPOOL_CHECK(found != numbers_.end() && *found == number && !has_left_[place]);
  return place;
}

void FirstFit::Rebuild() {
  const std::vector<uint64_t> numbers = std::exchange(numbers_, {});
  const std::vector<bool> has_left = std::exchange(has_left_, {});
  const std::vector<uint32_t> least = std::exchange(least_, {});
  const size_t old_capacity = std::exchange(capacity_, std::bit_ceil(2 * (size_ + 1)));
  least_.assign(2 * capacity_, kNever);
  numbers_.reserve(capacity_);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (has_left[i]) continue;
    least_[capacity_ + numbers_.size()] = least[old_capacity + i];
    numbers_.push_back(numbers[i]);
  }
  has_left_.assign(numbers_.size(), false);
  for (size_t node = capacity_ - 1; node > 0; --node) {
    least_[node] = std::min(least_[2 * node], least_[2 * node + 1]);
  }
}

void FirstFit::Set(size_t place, uint32_t need) {
  size_t node = capacity_ + place;
  least_[node] = need;
  for (node /= 2; node > 0; node /= 2) {
    const uint32_t least = std::min(least_[2 * node], least_[2 * node + 1]);
    if (least_[node] == least) return;
    least_[node] = least;
  }
}

}  // namespace kvpool
