#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace kvpool {

// FirstFit finds, of things that stand in line, the first whose need is met by what there is.
//
// It is a tree over the line, each node of which knows the least need below it. Every operation
// takes time logarithmic in the line; now and then Add makes the tree anew.
class FirstFit {
 public:
  FirstFit() = default;
  FirstFit(const FirstFit&) = delete;
  FirstFit& operator=(const FirstFit&) = delete;

  // Puts a thing last in line, without a need: nothing meets it yet. Requires a number above all
  // that ever stood in line.
  void Add(uint64_t number);
  // Requires that it stands in line. Absent: nothing meets it.
  void SetNeed(uint64_t number, std::optional<uint32_t> need);
  void Remove(uint64_t number);

  // The first whose need is at most `room`. Requires room < 2^32 - 1.
  std::optional<uint64_t> Find(uint32_t room) const;

  bool is_empty() const { return size_ == 0; }

 private:
  static constexpr uint32_t kNever = UINT32_MAX;

  size_t PlaceOf(uint64_t number) const;
  // Without those that left, and with room for as many again.
  void Rebuild();
  void Set(size_t place, uint32_t need);

  std::vector<uint64_t> numbers_;  // By place.
  std::vector<bool> has_left_;     // By place.
  size_t size_ = 0;                // Of those that have not.
  size_t capacity_ = 0;            // A power of two, or 0.
  std::vector<uint32_t> least_;    // Node 1 is the root, node n's children are 2n and 2n + 1.
};

}  // namespace kvpool
