#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/ledger/ledger_fixture.h"

namespace kvpool::test {

// A key that stands for the prefix of that text in that space: no two have the same.
inline PrefixKey KeyOf(char space, const std::string& text) {
  PrefixKey key;
  key.bytes[0] = static_cast<uint8_t>(space);
  key.bytes[1] = static_cast<uint8_t>(text.size());
  std::memcpy(key.bytes.data() + 2, text.data(), text.size());
  return key;
}

// The keys of a text, a block a letter, after the prefix `parent` (empty: from the start). At most
// 30 letters together.
inline PrefixKeys KeysOf(const std::string& text, const std::string& parent = "",
                         char space = 'A') {
  PrefixKeys keys;
  keys.root = KeyOf(space, "");
  if (!parent.empty()) keys.parent = KeyOf(space, parent);
  std::string prefix = parent;
  for (const char letter : text) {
    prefix += letter;
    keys.blocks.push_back(KeyOf(space, prefix));
  }
  return keys;
}

// A ledger whose sessions have models, and texts as prefixes. Evicts by leaf_lru unless told
// otherwise.
class CacheFixture : public LedgerFixture {
 public:
  explicit CacheFixture(uint32_t num_blocks) : CacheFixture(OptionsOf(num_blocks)) {}
  explicit CacheFixture(LedgerOptions options) : LedgerFixture(WithLru(options)) {}

  SessionId OpenModel(uint8_t n, const std::string& tenant = "acme") {
    return Open(n, {.tenant = tenant, .model_id = "llama", .process = ProcessId{n}});
  }

  absl::StatusOr<PublishAnswer> TryPublish(const SessionId& session, const PrefixKeys& prefix,
                                           const std::vector<BlockRef>& blocks, uint32_t skip = 0,
                                           uint64_t key = 0) {
    auto answer = ledger.Publish({.caller = Of(session),
                                  .prefix = &prefix,
                                  .skip = skip,
                                  .blocks = blocks,
                                  .idempotency_key = key},
                                 now);
    CheckInvariants();
    return answer;
  }
  PublishAnswer Publish(const SessionId& session, const PrefixKeys& prefix,
                        const std::vector<BlockRef>& blocks, uint32_t skip = 0) {
    auto answer = TryPublish(session, prefix, blocks, skip);
    REQUIRE(answer.status() == absl::OkStatus());
    return *std::move(answer);
  }
  // Blocks with that text, cached: nobody holds them.
  std::vector<BlockRef> Cache(const SessionId& session, const std::string& text) {
    std::vector<BlockRef> blocks = Alloc(session, static_cast<uint32_t>(text.size()));
    REQUIRE(Publish(session, KeysOf(text), blocks).published == text.size());
    Drop(session, blocks);
    return blocks;
  }

  absl::StatusOr<LookupAnswer> TryLookup(const SessionId& session, const PrefixKeys& prefix,
                                         bool acquire, uint64_t key = 0) {
    auto answer = ledger.Lookup(
        {.caller = Of(session), .prefix = &prefix, .acquire = acquire, .idempotency_key = key},
        now);
    CheckInvariants();
    return answer;
  }
  // The blocks of the text's longest findable prefix.
  std::vector<BlockRef> Find(const SessionId& session, const std::string& text) {
    const auto answer = TryLookup(session, KeysOf(text), /*acquire=*/false);
    REQUIRE(answer.status() == absl::OkStatus());
    return answer->blocks;
  }
  std::vector<BlockRef> Hold(const SessionId& session, const std::string& text) {
    const auto answer = TryLookup(session, KeysOf(text), /*acquire=*/true);
    REQUIRE(answer.status() == absl::OkStatus());
    return answer->blocks;
  }

  absl::StatusOr<AllocOutcome> TryAcquire(const SessionId& session, const PrefixKeys& prefix,
                                          uint32_t total, std::optional<Duration> wait = {},
                                          uint32_t max_new = 0, uint64_t key = 0) {
    auto outcome = ledger.Alloc({.caller = Of(session),
                                 .count = total,
                                 .prefix = &prefix,
                                 .max_new_blocks = max_new,
                                 .wait = wait,
                                 .idempotency_key = key,
                                 .queue = WaitQueue::kAdmit},
                                now);
    CheckInvariants();
    return outcome;
  }
  AllocAnswer Acquire(const SessionId& session, const std::string& text, uint32_t total) {
    const auto outcome = TryAcquire(session, KeysOf(text), total);
    REQUIRE(outcome.status() == absl::OkStatus());
    REQUIRE(outcome->pending == PendingId{});
    return outcome->answer;
  }
  PendingId AcquireLater(const SessionId& session, const std::string& text, uint32_t total) {
    const auto outcome = TryAcquire(session, KeysOf(text), total, seconds(1));
    REQUIRE(outcome.status() == absl::OkStatus());
    REQUIRE(outcome->pending != PendingId{});
    return outcome->pending;
  }

  absl::StatusOr<EvictAnswer> TryEvict(const SessionId& session,
                                       const std::vector<BlockRef>& blocks, uint32_t count = 0) {
    auto answer = ledger.Evict({.caller = Of(session), .count = count, .blocks = blocks}, now);
    CheckInvariants();
    return answer;
  }
  EvictAnswer Evict(const SessionId& session, const std::vector<BlockRef>& blocks) {
    auto answer = TryEvict(session, blocks);
    REQUIRE(answer.status() == absl::OkStatus());
    return *std::move(answer);
  }

  LedgerCounts Counts() const { return ledger.counts(); }
  uint32_t CachedBlocks() const { return ledger.counts().cached_blocks; }
  bool IsPublished(const BlockRef& ref) const { return ledger.GetBlock(ref.block).published; }

 private:
  static LedgerOptions WithLru(LedgerOptions options) {
    options.eviction_policy = EvictionPolicyName::kLeafLru;
    return options;
  }
};

}  // namespace kvpool::test
