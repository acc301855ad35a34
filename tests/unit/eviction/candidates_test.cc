#include "core/ledger/eviction/candidates.h"

#include "tests/support/catch.h"

namespace kvpool {
namespace {

constexpr TenantSlot kAnn{0};
constexpr TenantSlot kBob{5};

// Candidates with notes, each block used a millisecond after the one before it.
struct Fixture {
  BlockNotes notes;
  Candidates candidates{notes};

  void Add(uint32_t block, TenantSlot tenant, CandidateGroup group = CandidateGroup::kSeenOnce) {
    BlockNote& note = notes.Make(block);
    note.last_use = FirstStampOf(block);
    note.tenant = tenant;
    note.group = group;
    note.is_known = true;
    candidates.Add(BlockId{block});
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
}

TEST_CASE("Candidates keep their groups apart") {
  Fixture fixture;
  fixture.Add(1, kAnn, CandidateGroup::kSeenAgain);
  fixture.Add(2, kAnn, CandidateGroup::kDone);
  fixture.Add(3, kAnn, CandidateGroup::kSeenOnce);
  CHECK(fixture.candidates.Oldest(kAnn, CandidateGroup::kSeenOnce) == BlockId{3});
  CHECK(fixture.candidates.Oldest(kAnn, CandidateGroup::kSeenAgain) == BlockId{1});
  CHECK(fixture.candidates.Oldest(kNoTenant, CandidateGroup::kDone) == BlockId{2});
}

TEST_CASE("Candidates find the oldest from a stamp on") {
  Fixture fixture;
  fixture.Add(1, kAnn);
  fixture.Add(2, kBob);
  fixture.Add(3, kAnn);
  const auto group = CandidateGroup::kSeenOnce;
  CHECK(fixture.candidates.Oldest(kAnn, group, FirstStampOf(1)) == BlockId{1});
  CHECK(fixture.candidates.Oldest(kAnn, group, FirstStampOf(2)) == BlockId{3});
  CHECK(fixture.candidates.Oldest(kNoTenant, group, FirstStampOf(2)) == BlockId{2});
  CHECK(fixture.candidates.Oldest(kNoTenant, group, FirstStampOf(4)) == kNoBlock);
}

}  // namespace kvpool
