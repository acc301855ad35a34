#include "core/ledger/eviction/ghost_table.h"

#include <bit>

#include "core/check.h"

namespace kvpool {
namespace {

constexpr uint64_t kSeenAgainBit = uint64_t{1} << 63;

constexpr uint64_t Join(const std::array<uint32_t, 2>& halves) {
  return uint64_t{halves[1]} << 32 | halves[0];
}
constexpr std::array<uint32_t, 2> Split(uint64_t number) {
  return {static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32)};
}

}  // namespace

std::optional<Ghost> GhostTable::Put(const Ghost& ghost) {
  if (limit_ == 0) return ghost;
  std::optional<Ghost> dropped = Take(ghost.prefix);
  if (!dropped.has_value() && size_ >= limit_) dropped = DropOldest();
  const uint32_t index = MakeEntry();
  Entry& entry = entries_[index];
  entry = Pack(ghost);
  uint32_t& bucket = buckets_[BucketOf(ghost.prefix)];
  entry.next_in_bucket = bucket;
  bucket = index;
  entry.older = newest_;
  (newest_ == kNone ? oldest_ : entries_[newest_].newer) = index;
  newest_ = index;
  ++size_;
  return dropped;
}

std::optional<Ghost> GhostTable::Take(uint64_t prefix) {
  if (size_ == 0) return std::nullopt;
  uint32_t& link = LinkTo(prefix);
  if (link == kNone) return std::nullopt;
  return Drop(link);
}

std::optional<Ghost> GhostTable::TakeExcess() {
  if (size_ <= limit_) return std::nullopt;
  return DropOldest();
}

GhostTable::Entry GhostTable::Pack(const Ghost& ghost) {
  Entry entry;
  entry.prefix = Split(ghost.prefix);
  entry.last_use = Split(ToNumber(ghost.last_use) | (ghost.is_seen_again ? kSeenAgainBit : 0));
  return entry;
}

Ghost GhostTable::Unpack(const Entry& entry) {
  const uint64_t last_use = Join(entry.last_use);
  return {.prefix = Join(entry.prefix),
          .last_use = UseStamp{last_use & ~kSeenAgainBit},
          .is_seen_again = (last_use & kSeenAgainBit) != 0};
}

uint32_t GhostTable::BucketOf(uint64_t prefix) const {
  // A product's high half depends on every bit.
  const auto hash = static_cast<uint32_t>((prefix ^ prefix >> 32) * 0x9E3779B97F4A7C15U >> 32);
  // Buckets from half of the power of two on are there up to `bucket_count_`: the others' ghosts
  // are still in the lower half.
  const uint32_t mask = std::bit_ceil(bucket_count_) - 1;
  const uint32_t bucket = hash & mask;
  return bucket < bucket_count_ ? bucket : bucket & mask >> 1;
}

uint32_t& GhostTable::LinkTo(uint64_t prefix) {
  uint32_t* link = &buckets_[BucketOf(prefix)];
  while (*link != kNone && Join(entries_[*link].prefix) != prefix) {
    link = &entries_[*link].next_in_bucket;
  }
  return *link;
}

Ghost GhostTable::Drop(uint32_t& link) {
  KVPOOL_CHECK(link != kNone);
  const uint32_t index = link;
  Entry& entry = entries_[index];
  link = entry.next_in_bucket;
  (entry.older == kNone ? oldest_ : entries_[entry.older].newer) = entry.newer;
  (entry.newer == kNone ? newest_ : entries_[entry.newer].older) = entry.older;
  const Ghost ghost = Unpack(entry);
  entry.newer = unused_;
  unused_ = index;
  --size_;
  return ghost;
}

Ghost GhostTable::DropOldest() { return Drop(LinkTo(Unpack(entries_[oldest_]).prefix)); }

uint32_t GhostTable::MakeEntry() {
  if (unused_ == kNone) {
    AddBucket();
    entries_.Make(entry_count_);
    return entry_count_++;
  }
  const uint32_t index = unused_;
  unused_ = entries_[index].newer;
  return index;
}

void GhostTable::AddBucket() {
  const uint32_t added = bucket_count_++;
  buckets_.Make(added) = kNone;
  if (added == 0) return;
  // Those of its ghosts that are in the bucket it splits from move.
  uint32_t* link = &buckets_[added & ~std::bit_floor(added)];
  while (*link != kNone) {
    const uint32_t index = *link;
    Entry& entry = entries_[index];
    if (BucketOf(Join(entry.prefix)) != added) {
      link = &entry.next_in_bucket;
      continue;
    }
    *link = entry.next_in_bucket;
    entry.next_in_bucket = buckets_[added];
    buckets_[added] = index;
  }
}

}  // namespace kvpool
