#include "core/ledger/eviction/candidates.h"

#include <vector>

#include "tests/support/catch.h"

namespace kvpool {
namespace {

constexpr TenantSlot kAnn{0};
constexpr TenantSlot kBob{5};
constexpr int64_t kNowMs = 1'000'000;

// Candidates with notes, each block used a millisecond after the one before it.
struct Fixture {
  BlockNotes notes;
  Candidates candidates{notes};

  void Add(uint32_t block, TenantSlot tenant, CandidateGroup group = CandidateGroup::kSeenOnce) {
    BlockNote& note = notes.Make(block);
    note.last_use = FirstStampOf(block);
    note.tenant = tenant;
    note.group = group;
    candidates.Add(BlockId{block});
  }
  std::vector<BlockId> Heads(TenantSlot tenant) {
    std::vector<BlockId> heads;
    candidates.ForEachBinHead(
        tenant, kNowMs, [&](CandidateGroup, size_t, BlockId block) { heads.push_back(block); });
    return heads;
  }
};

}  // namespace

TEST_CASE("Candidates know the oldest of all, and of each tenant") {
  Fixture fixture;
  fixture.Add(2, kBob);
  fixture.Add(1, kAnn);
  fixture.Add(3, kAnn);
  CHECK(fixture.candidates.Oldest(kNoTenant, CandidateGroup::kSeenOnce) == BlockId{1});
  CHECK(fixture.candidates.Oldest(kBob, CandidateGroup::kSeenOnce) == BlockId{2});

  fixture.candidates.Remove(BlockId{1});
  CHECK(fixture.candidates.Oldest(kNoTenant, CandidateGroup::kSeenOnce) == BlockId{2});
  CHECK(fixture.candidates.Oldest(kAnn, CandidateGroup::kSeenOnce) == BlockId{3});
}

TEST_CASE("Candidates of a tenant that never had one are none") {
  Fixture fixture;
  fixture.Add(1, kAnn);
  CHECK(fixture.candidates.Oldest(TenantSlot{2}, CandidateGroup::kSeenOnce) == kNoBlock);
  CHECK(fixture.candidates.Oldest(TenantSlot{900}, CandidateGroup::kSeenOnce) == kNoBlock);
  CHECK(fixture.Heads(TenantSlot{2}).empty());
  CHECK(fixture.Heads(TenantSlot{900}).empty());
}

TEST_CASE("Candidates keep their groups apart") {
  Fixture fixture;
  fixture.Add(1, kAnn, CandidateGroup::kSeenAgain);
  fixture.Add(2, kAnn, CandidateGroup::kDone);
  fixture.Add(3, kAnn, CandidateGroup::kSeenOnce);
  CHECK(fixture.candidates.Oldest(kAnn, CandidateGroup::kSeenOnce) == BlockId{3});
  CHECK(fixture.candidates.Oldest(kAnn, CandidateGroup::kSeenAgain) == BlockId{1});
  CHECK(fixture.candidates.Oldest(kNoTenant, CandidateGroup::kDone) == BlockId{2});
  // Those hinted as done have no bins.
  CHECK(fixture.Heads(kNoTenant) == std::vector<BlockId>{BlockId{3}, BlockId{1}});
}

TEST_CASE("Candidates are the same with few, whose bins are searched, and with many") {
  Fixture fixture;
  const std::vector<BlockId> oldest_alone = {BlockId{10}};
  for (uint32_t i = 0; i < 2 * Candidates::kFollowFrom; ++i) {
    fixture.Add(10 + i, kAnn);
    CHECK(fixture.Heads(kAnn) == oldest_alone);
    CHECK(fixture.Heads(kNoTenant) == oldest_alone);
  }
  for (uint32_t i = 2 * Candidates::kFollowFrom; i-- > 1;) {
    fixture.candidates.Remove(BlockId{10 + i});
    CHECK(fixture.Heads(kAnn) == oldest_alone);
    CHECK(fixture.Heads(kNoTenant) == oldest_alone);
  }
}

TEST_CASE("Following bins takes at most 8 bytes a candidate") {
  Fixture fixture;
  const size_t before = fixture.candidates.size_bytes();
  CHECK(before == 0);
  for (uint32_t i = 0; i < Candidates::kFollowFrom; ++i) fixture.Add(i, kAnn);
  const size_t unfollowed = fixture.candidates.size_bytes();
  CHECK(fixture.Heads(kAnn).size() == 1);
  const size_t followed = fixture.candidates.size_bytes();
  CHECK(followed > unfollowed);
  CHECK(followed - unfollowed <= size_t{8} * Candidates::kFollowDownTo);

  // It ends with the candidates.
  for (uint32_t i = Candidates::kFollowFrom; i-- > Candidates::kFollowDownTo;) {
    fixture.candidates.Remove(BlockId{i});
  }
  CHECK(fixture.candidates.size_bytes() == followed);
  fixture.candidates.Remove(BlockId{0});
  CHECK(fixture.candidates.size_bytes() == unfollowed);
}

}  // namespace kvpool
