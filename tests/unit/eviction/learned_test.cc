#include "core/ledger/eviction/learned.h"

#include <optional>

#include "tests/support/catch.h"

namespace kvpool {
namespace {

constexpr TenantSlot kAnn{0};
constexpr TenantSlot kBob{1};

TimePoint At(int64_t seconds) { return TimePoint(std::chrono::seconds(seconds)); }

void AddCandidate(EvictionPolicy& policy, uint32_t block, TenantSlot tenant, int64_t seconds) {
  policy.AddBlock(BlockId{block}, tenant, /*prefix=*/block, At(seconds));
  policy.AddCandidate(BlockId{block});
}

// Shows the policy, until `end_seconds`, blocks that are used a minute after they came, and then
// each minute, and many that never are.
void TeachThatUsedBlocksAreUsed(Learned& policy, int64_t end_seconds) {
  constexpr uint32_t kFirstBlock = 1'000;
  policy.AddBlock(BlockId{kFirstBlock}, kBob, /*prefix=*/kFirstBlock, At(0));
  for (int64_t minute = 1; minute * 60 < end_seconds; ++minute) {
    const TimePoint now = At(minute * 60);
    policy.UseBlock(BlockId{kFirstBlock}, now);
    for (uint32_t i = 1; i < 100; ++i) {
      const uint32_t block = kFirstBlock + static_cast<uint32_t>(minute) * 100 + i;
      policy.AddBlock(BlockId{block}, kBob, /*prefix=*/block, now);
    }
    for (int i = 0; i < 10; ++i) policy.CountRequest(now);
  }
}

}  // namespace

TEST_CASE("Learned chooses nothing where nothing is a candidate") {
  Learned policy(/*capacity=*/10);
  CHECK(policy.Choose(kNoTenant, At(0)) == std::nullopt);
  policy.AddBlock(BlockId{1}, kAnn, /*prefix=*/1, At(1));
  CHECK(policy.Choose(kNoTenant, At(2)) == std::nullopt);
  policy.AddCandidate(BlockId{1});
  CHECK(policy.Choose(kNoTenant, At(2)) == BlockId{1});
  CHECK(policy.Choose(kBob, At(2)) == std::nullopt);
  policy.RemoveCandidate(BlockId{1});
  CHECK(policy.Choose(kNoTenant, At(2)) == std::nullopt);
}

TEST_CASE("Learned chooses, before it has learned anything, the oldest of all or of a tenant") {
  Learned policy(/*capacity=*/10);
  AddCandidate(policy, 1, kAnn, 10);
  AddCandidate(policy, 2, kBob, 200);
  AddCandidate(policy, 3, kBob, 800);
  CHECK(policy.Choose(kNoTenant, At(1'000)) == BlockId{1});
  CHECK(policy.Choose(kBob, At(1'000)) == BlockId{2});
}

TEST_CASE("Learned chooses, of blocks of equal worth, the one used longer ago") {
  Learned policy(/*capacity=*/10);
  AddCandidate(policy, 2, kAnn, 10);
  AddCandidate(policy, 1, kAnn, 10);
  CHECK(policy.Choose(kNoTenant, At(20)) == BlockId{2});
  // A day later nothing is worth anything, in either class.
  AddCandidate(policy, 3, kAnn, 30);
  policy.UseBlock(BlockId{2}, At(40));
  policy.RemoveCandidate(BlockId{1});
  CHECK(policy.Choose(kNoTenant, At(100'000)) == BlockId{3});
}

TEST_CASE("Learned keeps an old block of a class that is used again before a young one") {
  Learned policy(/*capacity=*/100'000);
  constexpr int64_t kEnd = 12'000;
  TeachThatUsedBlocksAreUsed(policy, kEnd);
  AddCandidate(policy, 1, kAnn, kEnd);
  policy.UseBlock(BlockId{1}, At(kEnd + 1));
  AddCandidate(policy, 2, kAnn, kEnd + 30);
  CHECK(policy.Choose(kNoTenant, At(kEnd + 40)) == BlockId{2});
}

TEST_CASE("Learned takes a block computed anew for one seen again, unless it was reset") {
  Learned policy(/*capacity=*/100'000);
  constexpr int64_t kEnd = 12'000;
  TeachThatUsedBlocksAreUsed(policy, kEnd);
  AddCandidate(policy, 1, kAnn, kEnd);
  AddCandidate(policy, 2, kAnn, kEnd);
  policy.ForgetEvicted(BlockId{1}, At(kEnd + 1));
  policy.ForgetRemoved(BlockId{2}, At(kEnd + 1));
  AddCandidate(policy, 1, kAnn, kEnd + 2);
  AddCandidate(policy, 2, kAnn, kEnd + 30);
  CHECK(policy.Choose(kNoTenant, At(kEnd + 40)) == BlockId{2});
}

TEST_CASE("Learned remembers, at first, four evicted blocks for each that can be cached") {
  for (const uint32_t later_count : {3U, 4U}) {
    Learned policy(/*capacity=*/1);
    AddCandidate(policy, 0, kAnn, 1);
    policy.ForgetEvicted(BlockId{0}, At(2));
    for (uint32_t i = 1; i <= later_count; ++i) {
      AddCandidate(policy, i, kAnn, 2);
      policy.ForgetEvicted(BlockId{i}, At(2));
    }
    CHECK(policy.ghost_count() == 4);
    AddCandidate(policy, 0, kAnn, 3);
    // It was a ghost, and is one no more, or had been forgotten.
    CHECK(policy.ghost_count() == (later_count == 3 ? 3 : 4));
  }
}

TEST_CASE("Learned remembers fewer, one by one, where fewer blocks are cached in the mean") {
  Learned policy(/*capacity=*/10);
  uint32_t next = 0;
  const auto evict_new = [&] {
    AddCandidate(policy, next, kAnn, 1);
    policy.ForgetEvicted(BlockId{next++}, At(1));
    return policy.ghost_count();
  };
  while (policy.ghost_count() < 40) evict_new();
  AddCandidate(policy, next++, kAnn, 1);
  AddCandidate(policy, next++, kAnn, 1);
  for (int i = 0; i < 49; ++i) policy.CountRequest(At(1));
  CHECK(evict_new() == 40);
  policy.CountRequest(At(1));
  CHECK(policy.ghost_count() == 40);
  for (uint32_t expected = 39; expected >= 8; --expected) CHECK(evict_new() == expected);
  CHECK(evict_new() == 8);
}

TEST_CASE("Learned chooses blocks hinted as done first, until they are used again") {
  Learned policy(/*capacity=*/10);
  AddCandidate(policy, 1, kAnn, 10);
  AddCandidate(policy, 2, kBob, 20);
  policy.AddBlock(BlockId{3}, kAnn, /*prefix=*/3, At(30));
  policy.HintDone(BlockId{2});
  policy.HintDone(BlockId{3});
  CHECK(policy.Choose(kNoTenant, At(40)) == BlockId{2});
  CHECK(policy.Choose(kAnn, At(40)) == BlockId{1});
  policy.AddCandidate(BlockId{3});
  CHECK(policy.Choose(kAnn, At(40)) == BlockId{3});

  policy.UseBlock(BlockId{2}, At(40));
  CHECK(policy.Choose(kNoTenant, At(40)) == BlockId{3});
  policy.UseBlock(BlockId{3}, At(40));
  CHECK(policy.Choose(kNoTenant, At(40)) == BlockId{1});
}

TEST_CASE("Learned can be told that a block goes that is no candidate") {
  Learned policy(/*capacity=*/10);
  policy.AddBlock(BlockId{1}, kAnn, /*prefix=*/1, At(10));
  AddCandidate(policy, 2, kAnn, 20);
  policy.ForgetEvicted(BlockId{1}, At(30));
  CHECK(policy.ghost_count() == 1);
  CHECK(policy.Choose(kNoTenant, At(30)) == BlockId{2});
}

TEST_CASE("Learned takes 48 bytes a cached block, nothing of it before, with many tenants too") {
  constexpr uint32_t kBlocks = 100'000;
  for (const uint32_t tenants : {1U, 1'000U}) {
    Learned policy(/*capacity=*/10'000'000);
    CHECK(policy.block_bytes() == 0);
    CHECK(policy.ghost_bytes() == 0);
    for (uint32_t i = 0; i < kBlocks; ++i) AddCandidate(policy, i, TenantSlot{i % tenants}, i);
    CHECK(policy.block_bytes() <= size_t{48} * kBlocks);
  }
}

TEST_CASE("Learned takes 32 bytes a ghost") {
  constexpr uint32_t kCapacity = 50'000;
  Learned policy(kCapacity);
  for (uint32_t i = 0; i < 5 * kCapacity; ++i) {
    policy.AddBlock(BlockId{0}, kAnn, /*prefix=*/i, At(i));
    policy.ForgetEvicted(BlockId{0}, At(i));
  }
  CHECK(policy.ghost_count() == 4 * kCapacity);
  CHECK(policy.ghost_bytes() <= size_t{32} * 4 * kCapacity * 101 / 100);
}

TEST_CASE("Learned takes more uses at one time than a millisecond has stamps for") {
  Learned policy(/*capacity=*/10);
  AddCandidate(policy, 1, kAnn, 10);
  for (int i = 0; i < 1'100'000; ++i) policy.UseBlock(BlockId{1}, At(10));
  AddCandidate(policy, 2, kAnn, 10);
  policy.ForgetEvicted(BlockId{2}, At(10));
  AddCandidate(policy, 2, kAnn, 10);
  CHECK(policy.Choose(kNoTenant, At(10)).has_value());
}

}  // namespace kvpool
