#include "client/session.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"

#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/unit/client/fixture.h"

namespace kvpool::client {
namespace {

TEST_CASE("A session opens attached, with what the daemon says of the pool") {
  Fixture fixture;
  const auto session = fixture.Open({.client_name = "worker",
                                     .expected_fingerprint = "print",
                                     .ttl = std::chrono::seconds(3),
                                     .model_id = "llama",
                                     .guaranteed_blocks = 2});
  CHECK(session->alive());
  CHECK(session->status().ok());
  CHECK(session->layout() == fixture.daemon.layout());
  CHECK(session->limits().max_blocks_per_call == 65'536);
  CHECK(session->limits().max_wait == std::chrono::seconds(60));
  CHECK(fixture.daemon.CallCount("KeepAlive") == 1);

  const v1::OpenSessionRequest request = fixture.daemon.LastOpen();
  CHECK(request.pool() == "p");
  CHECK(request.client_name() == "worker");
  CHECK(request.pid() == getpid());
  CHECK(request.expected_fingerprint() == "print");
  CHECK(request.ttl().seconds() == 3);
  CHECK(request.model_id() == "llama");
  CHECK(request.guaranteed_blocks() == 2);
  CHECK(request.join_session_id().empty());
}

TEST_CASE("A session's texts that are not UTF-8 are refused, with their names") {
  Fixture fixture;
  const std::vector<std::pair<SessionOptions, std::string>> cases = {
      {{.pool = "\xE9"}, R"(pool "\xe9" is not UTF-8)"},
      {{.pool = "p", .client_name = "caf\xE9"}, R"(client_name "caf\xe9" is not UTF-8)"},
      {{.pool = "p", .expected_fingerprint = "\xFF"}, R"(expected_fingerprint "\xff" is not)"},
      {{.pool = "p", .model_id = "\xC3"}, R"(model_id "\xc3" is not UTF-8)"},
  };
  for (const auto& [options, text] : cases) {
    const absl::Status status = fixture.client.OpenSession(options).status();
    CHECK(absl::IsInvalidArgument(status));
    CAPTURE(status.message());
    CHECK(absl::StrContains(status.message(), text));
  }
  CHECK(fixture.daemon.CallCount("OpenSession") == 0);
}

TEST_CASE("A session joins another by its id") {
  Fixture fixture;
  const auto scheduler = fixture.Open();
  const auto worker = fixture.Open({.join = scheduler->id()});
  CHECK(fixture.daemon.LastOpen().join_session_id() == scheduler->id().ToString());
  CHECK(worker->id() != scheduler->id());
}

TEST_CASE("A session that the daemon refuses is told with its detail") {
  Fixture fixture;
  CHECK(absl::IsNotFound(fixture.client.OpenSession({.pool = "q"}).status()));
  const absl::Status refusal = MakeError(absl::StatusCode::kFailedPrecondition,
                                         {.reason = Reason::kLayoutMismatch}, "another layout");
  fixture.daemon.RefuseNext("OpenSession", refusal);
  CHECK(fixture.client.OpenSession({.pool = "p"}).status() == refusal);
}

TEST_CASE("A session that cannot be attached does not open, and is closed") {
  Fixture fixture;
  const absl::Status refusal =
      MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kAttached}, "attached");
  fixture.daemon.RefuseNext("KeepAlive", refusal);
  CHECK(fixture.client.OpenSession({.pool = "p"}).status() == refusal);
  CHECK(fixture.daemon.SessionCount() == 0);
}

TEST_CASE("A session that is not attached in time does not open, and is closed") {
  Fixture fixture;
  fixture.daemon.LeaveUnattached();
  RetryPolicy retry = QuickRetry();
  retry.attempt_timeout = std::chrono::milliseconds(100);
  auto client = Client::Create({.socket = fixture.daemon.socket(), .retry = retry});
  REQUIRE(client.ok());
  CHECK(absl::IsDeadlineExceeded(client->OpenSession({.pool = "p"}).status()));
  CHECK(fixture.daemon.SessionCount() == 0);
}

TEST_CASE("Options that cannot be right are INVALID_ARGUMENT") {
  CHECK(absl::IsInvalidArgument(Client::Create({.socket = "/run/kvpool.sock"}).status()));
  CHECK(absl::IsInvalidArgument(Client::Create({.socket = "unix:"}).status()));
  CHECK(absl::IsInvalidArgument(
      Client::Create({.socket = "unix:" + std::string(105, 'x')}).status()));
  CHECK(Client::Create({.socket = "unix:" + std::string(104, 'x')}).ok());
  CHECK(absl::IsInvalidArgument(Client::Create({.close_timeout = Duration{}}).status()));
  CHECK(absl::IsInvalidArgument(
      Client::Create({.retry = {.attempt_timeout = -std::chrono::seconds(1)}}).status()));
  CHECK(absl::IsInvalidArgument(
      Client::Create({.retry = {.total_timeout = std::chrono::hours(25)}}).status()));
}

TEST_CASE("Alloc leases blocks, one reference each") {
  Fixture fixture;
  const auto session = fixture.Open();
  const auto leases = session->Alloc(3);
  REQUIRE(leases.ok());
  REQUIRE(leases->size() == 3);
  std::set<uint32_t> blocks;
  for (const BlockLease& lease : *leases) {
    blocks.insert(ToIndex(lease.id()));
    CHECK(lease.generation() != Generation{});
    CHECK(fixture.daemon.ReferenceCount(lease.id()) == 1);
  }
  CHECK(blocks.size() == 3);
}

TEST_CASE("Alloc of none is fine") {
  Fixture fixture;
  const auto leases = fixture.Open()->Alloc(0);
  REQUIRE(leases.ok());
  CHECK(leases->empty());
}

TEST_CASE("A full pool says how many blocks could be had; a partial Alloc takes them") {
  Fixture fixture;
  const auto session = fixture.Open();
  const absl::Status full = session->Alloc(9).status();
  CHECK(absl::IsResourceExhausted(full));
  CHECK(GetErrorDetail(full) == ErrorDetail{.reason = Reason::kPoolFull, .available = 8});
  const auto leases = session->Alloc(9, {.allow_partial = true});
  REQUIRE(leases.ok());
  CHECK(leases->size() == 8);
}

TEST_CASE("What Alloc releases serves the same call and is empty afterwards") {
  Fixture fixture;
  const auto session = fixture.Open();
  auto old = session->Alloc(6);
  REQUIRE(old.ok());
  const auto fresh = session->Alloc(8, {.release = *old});
  REQUIRE(fresh.ok());
  CHECK(std::ranges::all_of(*old, &BlockLease::is_empty));
  old->clear();
  CHECK(session->Flush().ok());
  CHECK(fixture.daemon.CallCount("DecRef") == 0);
  CHECK(fixture.daemon.FreeCount() == 0);
}

TEST_CASE("An Alloc that fails has released nothing") {
  Fixture fixture;
  const auto session = fixture.Open();
  auto old = session->Alloc(2);
  REQUIRE(old.ok());
  CHECK_FALSE(session->Alloc(9, {.release = *old}).ok());
  CHECK(std::ranges::none_of(*old, &BlockLease::is_empty));
  CHECK(fixture.daemon.ReferenceCount((*old)[0].id()) == 1);
}

TEST_CASE("Alloc releases neither what has forks nor what is another session's") {
  Fixture fixture;
  const auto session = fixture.Open();
  const auto other = fixture.Open();
  auto leases = session->Alloc(1);
  REQUIRE(leases.ok());
  CHECK(absl::IsInvalidArgument(other->Alloc(1, {.release = *leases}).status()));
  const BlockLease fork = (*leases)[0].Fork();
  CHECK(absl::IsFailedPrecondition(session->Alloc(1, {.release = *leases}).status()));
  CHECK(fixture.daemon.CallCount("Alloc") == 1);
}

TEST_CASE("IncRef takes a reference of one's own on what another session hands over") {
  Fixture fixture;
  const auto giver = fixture.Open();
  const auto taker = fixture.Open();
  auto given = giver->Alloc(2);
  REQUIRE(given.ok());
  const std::vector<BlockRef> refs = Refs(*given);

  auto taken = taker->IncRef(refs);
  REQUIRE(taken.ok());
  CHECK(Refs(*taken) == refs);
  given->clear();
  CHECK(giver->Flush().ok());
  CHECK(fixture.daemon.ReferenceCount(refs[0].block) == 1);
  taken->clear();
  CHECK(taker->Flush().ok());
  CHECK(fixture.daemon.FreeCount() == 8);
}

TEST_CASE("IncRef of what has changed hands is STALE_BLOCK, of what has no generation never sent") {
  Fixture fixture;
  const auto session = fixture.Open();
  const auto leases = session->Alloc(1);
  REQUIRE(leases.ok());
  BlockRef ref = (*leases)[0].ref();
  ref.generation = Generation{99};
  CHECK(GetErrorDetail(session->IncRef({&ref, 1}).status()).reason == Reason::kStaleBlock);
  ref.generation = Generation{};
  CHECK(absl::IsInvalidArgument(session->IncRef({&ref, 1}).status()));
  CHECK(fixture.daemon.CallCount("IncRef") == 1);
}

TEST_CASE("Closing ends the session once, and what it holds") {
  Fixture fixture;
  const auto session = fixture.Open();
  auto leases = session->Alloc(3);
  REQUIRE(leases.ok());
  CHECK(session->Close().ok());
  CHECK_FALSE(session->alive());
  CHECK(fixture.daemon.SessionCount() == 0);
  CHECK(fixture.daemon.FreeCount() == 8);
  CHECK(session->Close().ok());
  CHECK(fixture.daemon.CallCount("CloseSession") == 1);

  const absl::Status after = session->Alloc(1).status();
  CHECK(absl::IsNotFound(after));
  CHECK(GetErrorDetail(after).reason == Reason::kSessionUnknown);
  // Its leases are empty names.
  CHECK((*leases)[0].Release().ok());
  leases->clear();
  CHECK(fixture.daemon.CallCount("DecRef") == 0);
}

TEST_CASE("Destroying a session closes it, and leases may outlive it") {
  Fixture fixture;
  auto session = fixture.Open();
  auto leases = session->Alloc(3);
  REQUIRE(leases.ok());
  session.reset();
  CHECK(fixture.daemon.CallCount("CloseSession") == 1);
  CHECK(fixture.daemon.SessionCount() == 0);
  const BlockLease fork = (*leases)[0].Fork();
  leases->clear();
  CHECK_FALSE(fork.is_empty());
}

TEST_CASE("Sessions outlive the client that opened them") {
  test::TempDir directory;
  test::FakeDaemon daemon(directory.path().string());
  std::unique_ptr<Session> session;
  {
    auto client = Client::Create({.socket = daemon.socket(), .retry = QuickRetry()});
    REQUIRE(client.ok());
    session = client->OpenSession({.pool = "p"}).value();
  }
  CHECK(session->Alloc(1).ok());
}

}  // namespace
}  // namespace kvpool::client
