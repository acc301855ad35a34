#include "core/ledger/eviction/leaf_lru.h"

#include <csignal>
#include <optional>

#include "tests/support/catch.h"
#include "tests/support/dies_in_child.h"

namespace kvpool {
namespace {

constexpr TenantSlot kAnn{0};
constexpr TenantSlot kBob{1};

TimePoint At(int64_t seconds) { return TimePoint(std::chrono::seconds(seconds)); }

void AddCandidate(EvictionPolicy& policy, uint32_t block, TenantSlot tenant, int64_t seconds) {
  policy.AddBlock(BlockId{block}, tenant, /*prefix=*/block, At(seconds));
  policy.AddCandidate(BlockId{block});
}

}  // namespace

TEST_CASE("LeafLru chooses nothing where nothing is a candidate") {
  LeafLru policy;
  CHECK(policy.Choose(kNoTenant, At(0)) == std::nullopt);
  policy.AddBlock(BlockId{1}, kAnn, /*prefix=*/1, At(1));
  CHECK(policy.Choose(kNoTenant, At(2)) == std::nullopt);
  policy.AddCandidate(BlockId{1});
  CHECK(policy.Choose(kNoTenant, At(2)) == BlockId{1});
  CHECK(policy.Choose(kBob, At(2)) == std::nullopt);
  policy.RemoveCandidate(BlockId{1});
  CHECK(policy.Choose(kNoTenant, At(2)) == std::nullopt);
}

TEST_CASE("LeafLru chooses the candidate used longest ago, of all or of a tenant") {
  LeafLru policy;
  AddCandidate(policy, 1, kAnn, 10);
  AddCandidate(policy, 2, kBob, 20);
  AddCandidate(policy, 3, kBob, 30);
  CHECK(policy.Choose(kNoTenant, At(40)) == BlockId{1});
  CHECK(policy.Choose(kBob, At(40)) == BlockId{2});

  policy.UseBlock(BlockId{2}, At(40));
  CHECK(policy.Choose(kBob, At(40)) == BlockId{3});
  policy.ForgetEvicted(BlockId{1}, At(40));
  CHECK(policy.Choose(kNoTenant, At(40)) == BlockId{3});
  policy.ForgetRemoved(BlockId{3}, At(40));
  CHECK(policy.Choose(kNoTenant, At(40)) == BlockId{2});
}

TEST_CASE("LeafLru puts a block that becomes a candidate late where its last use was") {
  LeafLru policy;
  policy.AddBlock(BlockId{1}, kAnn, /*prefix=*/1, At(10));
  AddCandidate(policy, 2, kAnn, 20);
  policy.AddCandidate(BlockId{1});
  CHECK(policy.Choose(kNoTenant, At(30)) == BlockId{1});
}

TEST_CASE("LeafLru chooses at one time by the order of use") {
  LeafLru policy;
  AddCandidate(policy, 7, kAnn, 10);
  AddCandidate(policy, 3, kAnn, 10);
  AddCandidate(policy, 5, kAnn, 10);
  CHECK(policy.Choose(kNoTenant, At(10)) == BlockId{7});
  policy.UseBlock(BlockId{7}, At(10));
  CHECK(policy.Choose(kNoTenant, At(10)) == BlockId{3});
}

TEST_CASE("LeafLru does not mind a hint") {
  LeafLru policy;
  AddCandidate(policy, 1, kAnn, 10);
  AddCandidate(policy, 2, kAnn, 20);
  policy.HintDone(BlockId{2});
  CHECK(policy.Choose(kNoTenant, At(30)) == BlockId{1});
}

TEST_CASE("LeafLru takes a block that it forgot as a new one") {
  LeafLru policy;
  AddCandidate(policy, 1, kAnn, 10);
  policy.ForgetEvicted(BlockId{1}, At(11));
  AddCandidate(policy, 2, kAnn, 12);
  AddCandidate(policy, 1, kBob, 13);
  CHECK(policy.Choose(kNoTenant, At(20)) == BlockId{2});
  CHECK(policy.Choose(kBob, At(20)) == BlockId{1});
}

TEST_CASE("A policy ends the process where it is told what cannot be") {
  LeafLru policy;
  AddCandidate(policy, 1, kAnn, 10);
  CHECK(test::DiesInChild([&] { policy.AddCandidate(BlockId{1}); }, SIGABRT));
  CHECK(
      test::DiesInChild([&] { policy.AddBlock(BlockId{1}, kAnn, /*prefix=*/1, At(11)); }, SIGABRT));
  policy.RemoveCandidate(BlockId{1});
  CHECK(test::DiesInChild([&] { policy.RemoveCandidate(BlockId{1}); }, SIGABRT));
  policy.ForgetRemoved(BlockId{1}, At(12));
  CHECK(test::DiesInChild([&] { policy.UseBlock(BlockId{1}, At(13)); }, SIGABRT));
  CHECK(test::DiesInChild([&] { policy.ForgetEvicted(BlockId{1}, At(13)); }, SIGABRT));
}

}  // namespace kvpool
