#include "client/block_lease.h"

#include <mutex>
#include <thread>
#include <vector>

#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/unit/client/fixture.h"

namespace kvpool::client {
namespace {

BlockLease AllocOne(Session& session) { return std::move(session.Alloc(1).value().front()); }

TEST_CASE("Forks of a lease share one reference, given back with the last of them") {
  Fixture fixture;
  const auto session = fixture.Open();
  BlockLease lease = AllocOne(*session);
  BlockLease first = lease.Fork();
  BlockLease second = first.Fork();
  const BlockId block = lease.id();
  CHECK(first.ref() == lease.ref());
  CHECK(fixture.daemon.ReferenceCount(block) == 1);
  CHECK(fixture.daemon.CallCount("IncRef") == 0);

  CHECK(lease.Release().ok());
  { const BlockLease gone = std::move(first); }
  CHECK(session->Flush().ok());
  CHECK(fixture.daemon.ReferenceCount(block) == 1);
  CHECK(fixture.daemon.CallCount("DecRef") == 0);

  CHECK(second.Release().ok());
  CHECK(second.is_empty());
  CHECK(fixture.daemon.ReferenceCount(block) == 0);
  CHECK(fixture.daemon.CallCount("DecRef") == 1);
}

TEST_CASE("A destroyed lease is given back in the background, Flush waits for it") {
  Fixture fixture;
  const auto session = fixture.Open();
  const BlockId block = AllocOne(*session).id();
  CHECK(session->Flush().ok());
  CHECK(fixture.daemon.ReferenceCount(block) == 0);
}

TEST_CASE("Destroying a lease does not wait for the daemon") {
  Fixture fixture;
  const auto session = fixture.Open();
  auto leases = session->Alloc(8);
  REQUIRE(leases.ok());
  fixture.daemon.HoldNext("DecRef");
  leases->pop_back();
  fixture.daemon.WaitUntilHeld();
  // The daemon is deaf now, and yet this returns.
  leases->clear();
  fixture.daemon.Resume();
  CHECK(session->Flush().ok());
  CHECK(fixture.daemon.FreeCount() == 8);
  // The seven went together.
  CHECK(fixture.daemon.CallCount("DecRef") == 2);
}

TEST_CASE("An Alloc finds the room of every lease that ended before it") {
  Fixture fixture;
  const auto session = fixture.Open();
  for (int round = 0; round < 50; ++round) {
    const auto leases = session->Alloc(8);
    REQUIRE(leases.ok());
  }
}

TEST_CASE("More releases than a call takes go in several") {
  Fixture fixture({.spec = {}, .max_blocks_per_call = 3});
  const auto session = fixture.Open();
  session->Alloc(8).value().clear();
  CHECK(session->Flush().ok());
  CHECK(fixture.daemon.FreeCount() == 8);
  CHECK(fixture.daemon.CallCount("DecRef") >= 3);
}

TEST_CASE("A lease that is assigned to ends what it was") {
  Fixture fixture;
  const auto session = fixture.Open();
  BlockLease lease = AllocOne(*session);
  const BlockId first = lease.id();
  lease = AllocOne(*session);
  CHECK(lease.id() != first);
  CHECK(session->Flush().ok());
  CHECK(fixture.daemon.ReferenceCount(first) == 0);
  CHECK(fixture.daemon.ReferenceCount(lease.id()) == 1);

  BlockLease& same = lease;
  lease = std::move(same);
  CHECK_FALSE(lease.is_empty());
}

TEST_CASE("An empty lease may be forked, released and destroyed") {
  BlockLease lease;
  CHECK(lease.is_empty());
  CHECK(lease.Fork().is_empty());
  CHECK(lease.Release().ok());
}

TEST_CASE("A release that the daemon refuses says so") {
  Fixture fixture;
  const auto session = fixture.Open();
  BlockLease lease = AllocOne(*session);
  const absl::Status refusal = MakeError(absl::StatusCode::kFailedPrecondition,
                                         {.reason = Reason::kNotHeld, .block_id = 3}, "not held");
  fixture.daemon.RefuseNext("DecRef", refusal);
  CHECK(lease.Release() == refusal);
  CHECK(lease.is_empty());
}

TEST_CASE("A late release that fails is told to the session's callback and to Flush") {
  std::vector<BlockRef> failed;
  absl::Status why;
  Fixture fixture;
  const auto session = fixture.Open(
      {.on_release_failure = [&](std::span<const BlockRef> refs, const absl::Status& status) {
        failed.insert(failed.end(), refs.begin(), refs.end());
        why = status;
      }});
  BlockLease lease = AllocOne(*session);
  const BlockRef ref = lease.ref();
  const absl::Status refusal = absl::PermissionDeniedError("no");
  fixture.daemon.RefuseNext("DecRef", refusal);
  { const BlockLease ended = std::move(lease); }
  CHECK(session->Flush() == refusal);
  CHECK(failed == std::vector<BlockRef>{ref});
  CHECK(why == refusal);
  CHECK(session->Flush().ok());
}

TEST_CASE("Forks may be made and ended on many threads") {
  Fixture fixture;
  const auto session = fixture.Open();
  BlockLease lease = AllocOne(*session);
  const BlockId block = lease.id();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([fork = lease.Fork()]() mutable {
        for (int round = 0; round < 1000; ++round) {
          BlockLease next = fork.Fork();
          fork = std::move(next);
        }
      });
    }
    lease = BlockLease();
  }
  CHECK(session->Flush().ok());
  CHECK(fixture.daemon.ReferenceCount(block) == 0);
  CHECK(fixture.daemon.CallCount("DecRef") == 1);
}

}  // namespace
}  // namespace kvpool::client
