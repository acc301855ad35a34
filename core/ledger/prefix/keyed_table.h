#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/check.h"
#include "core/ledger/eviction/paged_array.h"
#include "core/ledger/prefix/prefix_key.h"

namespace kvpool {

// KeyedTable keeps records in numbered slots, and finds those that are listed by their key. A
// Record has a `PrefixKey key` and a `uint32_t next_in_bucket`, which is the table's.
//
// It grows by a bucket at a time (linear hashing), and records never move: no call takes time that
// grows with the table, as rehashing a whole one would, under the pool's mutex. Slots are reused;
// its memory is that of the most records there were at a time.
template <typename Record>
class KeyedTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  KeyedTable() = default;
  KeyedTable(const KeyedTable&) = delete;
  KeyedTable& operator=(const KeyedTable&) = delete;

  // A slot with a fresh record that is not listed.
  uint32_t Add();
  // Requires that the record is not listed.
  void Drop(uint32_t slot);

  // Makes the record one that Find finds, by the key that it has: the first of those of its key.
  void List(uint32_t slot);
  // Requires that it is listed.
  void Unlist(uint32_t slot);

  // The listed record of that key for which `condition(record)` holds; kNone if there is none.
  template <typename Condition>
  uint32_t Find(const PrefixKey& key, const Condition& condition) const {
    if (bucket_count_ == 0) return kNone;
    for (uint32_t slot = heads_[BucketOf(key)]; slot != kNone;) {
      const Record& record = records_[slot];
      if (record.key == key && condition(record)) return slot;
      slot = record.next_in_bucket;
    }
    return kNone;
  }

  // Hints that make what Find looks at be on its way from memory, one after the other: the bucket,
  // and then, once that is there, its first record.
  void PrefetchBucket(const PrefixKey& key) const {
    if (bucket_count_ > 0) __builtin_prefetch(&heads_[BucketOf(key)]);
  }
  void PrefetchRecord(const PrefixKey& key) const {
    if (bucket_count_ == 0) return;
    const uint32_t slot = heads_[BucketOf(key)];
    if (slot != kNone) __builtin_prefetch(&records_[slot]);
  }

  Record& operator[](uint32_t slot) { return records_[slot]; }
  const Record& operator[](uint32_t slot) const { return records_[slot]; }
  // Every slot there ever was is below this.
  uint32_t end() const { return end_; }
  uint32_t listed_count() const { return listed_count_; }

 private:
  // Of the buckets there are, the one whose number agrees with the key in the most low bits.
  uint32_t BucketOf(const PrefixKey& key) const {
    const auto bits = static_cast<uint32_t>(key.prefix64());
    const uint32_t top = std::bit_floor(bucket_count_);
    const uint32_t bucket = bits & (2 * top - 1);
    return bucket < bucket_count_ ? bucket : bucket & (top - 1);
  }
  void AddBucket();

  PagedArray<Record, 1024> records_;
  PagedArray<uint32_t, 1024> heads_;  // The first record of each bucket.
  uint32_t bucket_count_ = 0;
  uint32_t listed_count_ = 0;
  uint32_t end_ = 0;
  uint32_t unused_ = kNone;  // The slot dropped last; each leads to the one dropped before it.
};

template <typename Record>
uint32_t KeyedTable<Record>::Add() {
  uint32_t slot = unused_;
  if (slot != kNone) {
    unused_ = records_[slot].next_in_bucket;
  } else {
    KVPOOL_CHECK(end_ < kNone);
    slot = end_++;
    records_.Make(slot);
  }
  records_[slot] = Record();
  return slot;
}

template <typename Record>
void KeyedTable<Record>::Drop(uint32_t slot) {
  records_[slot] = Record();
  records_[slot].next_in_bucket = unused_;
  unused_ = slot;
}

template <typename Record>
void KeyedTable<Record>::List(uint32_t slot) {
  // One bucket a record, up to where numbers of buckets end.
  if (listed_count_ >= bucket_count_ && bucket_count_ < uint32_t{1} << 31) AddBucket();
  ++listed_count_;
  uint32_t& head = heads_[BucketOf(records_[slot].key)];
  records_[slot].next_in_bucket = head;
  head = slot;
}

template <typename Record>
void KeyedTable<Record>::Unlist(uint32_t slot) {
  uint32_t* link = &heads_[BucketOf(records_[slot].key)];
  while (*link != slot) {
    KVPOOL_CHECK(*link != kNone);
    link = &records_[*link].next_in_bucket;
  }
  *link = records_[slot].next_in_bucket;
  --listed_count_;
}

template <typename Record>
void KeyedTable<Record>::AddBucket() {
  const uint32_t added = bucket_count_++;
  heads_.Make(added) = kNone;
  if (added == 0) return;
  // The records that the new bucket takes are all in the one that shares its lower bits. Their
  // order stays.
  uint32_t* kept = &heads_[added - std::bit_floor(added)];
  uint32_t* taken = &heads_[added];
  for (uint32_t slot = *kept; slot != kNone; slot = records_[slot].next_in_bucket) {
    uint32_t*& link = BucketOf(records_[slot].key) == added ? taken : kept;
    *link = slot;
    link = &records_[slot].next_in_bucket;
  }
  *kept = kNone;
  *taken = kNone;
}

}  // namespace kvpool
