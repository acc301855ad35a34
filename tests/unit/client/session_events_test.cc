// What a session does once a GPU's work is done: PublishAfter and ReleaseAfter.
#include <future>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "client/session.h"
#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"
#include "tests/unit/client/gpu_fixture.h"

namespace kvpool::client {
namespace {

// Work on a GPU, which fakes know by the address of its event.
struct Work {
  char place = 0;
  void* event() { return &place; }
};

const std::vector<uint32_t> kTokens(16, 1);

absl::Status Lost() {
  return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDeviceFailed},
                   "lost");
}

std::vector<BlockLease> Alloc(Session& session, uint32_t count) {
  auto leases = session.Alloc(count);
  REQUIRE(leases.ok());
  return *std::move(leases);
}

// What a session was told could not be given back.
class Failures {
 public:
  auto Callback() {
    return [this](std::span<const BlockRef> refs, const absl::Status& status) {
      const std::lock_guard lock(mutex_);
      refs_.insert(refs_.end(), refs.begin(), refs.end());
      status_ = status;
    };
  }
  std::vector<BlockRef> refs() {
    const std::lock_guard lock(mutex_);
    return refs_;
  }
  absl::Status status() {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  std::mutex mutex_;
  std::vector<BlockRef> refs_;
  absl::Status status_;
};

TEST_CASE("PublishAfter publishes once the event is done, and not before") {
  GpuFixture fixture;
  const auto session = fixture.Open({.model_id = "m"});
  const auto leases = Alloc(*session, 1);
  Work work;
  auto published = std::async(std::launch::async, [&] {
    return session->PublishAfter(work.event(), {.tokens = kTokens}, Refs(leases));
  });
  fixture.gpus.WaitUntilAwaited(work.event());
  CHECK(fixture.daemon().CallCount("Publish") == 0);
  fixture.gpus.End(work.event());
  const auto result = published.get();
  REQUIRE(result.ok());
  CHECK(result->count == 1);
  CHECK(fixture.daemon().CallCount("Publish") == 1);
  CHECK(fixture.gpus.awaited_device() == kFirstGpu);
}

TEST_CASE("PublishAfter publishes nothing where the work failed") {
  GpuFixture fixture;
  const auto session = fixture.Open({.model_id = "m"});
  const auto leases = Alloc(*session, 1);
  Work work;
  fixture.gpus.End(work.event(), Lost());
  const auto result = session->PublishAfter(work.event(), {.tokens = kTokens}, Refs(leases));
  CHECK(GetErrorDetail(result.status()).reason == Reason::kDeviceFailed);
  CHECK(fixture.daemon().CallCount("Publish") == 0);
}

TEST_CASE("PublishAfter stops waiting when the session ends, and says that it has") {
  GpuFixture fixture;
  const auto session = fixture.Open({.model_id = "m"});
  const auto leases = Alloc(*session, 1);
  Work work;
  auto published = std::async(std::launch::async, [&] {
    return session->PublishAfter(work.event(), {.tokens = kTokens}, Refs(leases));
  });
  fixture.gpus.WaitUntilAwaited(work.event());
  fixture.daemon().EndStreams(absl::AbortedError("ended"));
  CHECK(GetErrorDetail(published.get().status()).reason == Reason::kSessionUnknown);
}

TEST_CASE("An event is waited for on the GPU of the pool's that is visible") {
  GpuFixture fixture({"GPU-of-another-pool", kSecondGpu});
  const auto session = fixture.Open({.model_id = "m"});
  const auto leases = Alloc(*session, 1);
  Work work;
  fixture.gpus.End(work.event());
  CHECK(session->PublishAfter(work.event(), {.tokens = kTokens}, Refs(leases)).ok());
  CHECK(fixture.gpus.awaited_device() == kSecondGpu);
}

TEST_CASE("ReleaseAfter returns at once and gives leases back once their event is done") {
  GpuFixture fixture;
  const auto session = fixture.Open();
  auto leases = Alloc(*session, 2);
  const std::vector<BlockRef> refs = Refs(leases);
  Work work;
  REQUIRE(session->ReleaseAfter(work.event(), std::move(leases)).ok());
  fixture.gpus.WaitUntilAwaited(work.event());
  CHECK(session->Flush().ok());  // Waits for none of them.
  CHECK(fixture.daemon().ReferenceCount(refs[0].block) == 1);
  fixture.gpus.End(work.event());
  CHECK(test::Eventually([&] {
    return fixture.daemon().ReferenceCount(refs[0].block) == 0 &&
           fixture.daemon().ReferenceCount(refs[1].block) == 0;
  }));
}

TEST_CASE("Leases that wait for different events end each with its own") {
  GpuFixture fixture;
  const auto session = fixture.Open();
  auto first = Alloc(*session, 1);
  auto second = Alloc(*session, 1);
  const BlockId of_first = first[0].id();
  const BlockId of_second = second[0].id();
  Work work;
  Work more_work;
  REQUIRE(session->ReleaseAfter(work.event(), std::move(first)).ok());
  REQUIRE(session->ReleaseAfter(more_work.event(), std::move(second)).ok());
  fixture.gpus.End(work.event());
  fixture.gpus.WaitUntilAwaited(more_work.event());
  CHECK(test::Eventually([&] { return fixture.daemon().ReferenceCount(of_first) == 0; }));
  CHECK(fixture.daemon().ReferenceCount(of_second) == 1);
  fixture.gpus.End(more_work.event());
  CHECK(test::Eventually([&] { return fixture.daemon().ReferenceCount(of_second) == 0; }));
}

TEST_CASE("A fork of a lease that waits for an event holds its block on") {
  GpuFixture fixture;
  const auto session = fixture.Open();
  auto leases = Alloc(*session, 2);
  const std::vector<BlockRef> refs = Refs(leases);
  const BlockLease fork = leases[0].Fork();
  Work work;
  REQUIRE(session->ReleaseAfter(work.event(), std::move(leases)).ok());
  fixture.gpus.End(work.event());
  CHECK(test::Eventually([&] { return fixture.daemon().ReferenceCount(refs[1].block) == 0; }));
  CHECK(fixture.daemon().ReferenceCount(refs[0].block) == 1);
}

TEST_CASE("Leases whose event fails are told of, and held until the session ends") {
  GpuFixture fixture;
  Failures failures;
  auto session = fixture.Open({.on_release_failure = failures.Callback()});
  auto lost = Alloc(*session, 2);
  const std::vector<BlockRef> refs = Refs(lost);
  lost.emplace_back();  // An empty one is nobody's.
  auto fine = Alloc(*session, 1);
  const BlockId of_fine = fine[0].id();
  Work work;
  Work more_work;
  fixture.gpus.End(work.event(), Lost());
  fixture.gpus.End(more_work.event());
  REQUIRE(session->ReleaseAfter(work.event(), std::move(lost)).ok());
  REQUIRE(session->ReleaseAfter(more_work.event(), std::move(fine)).ok());
  CHECK(test::Eventually([&] { return fixture.daemon().ReferenceCount(of_fine) == 0; }));
  CHECK(failures.refs() == refs);
  CHECK(GetErrorDetail(failures.status()).reason == Reason::kDeviceFailed);
  CHECK(fixture.daemon().ReferenceCount(refs[0].block) == 1);
  CHECK(session->alive());
  session.reset();
  CHECK(fixture.daemon().ReferenceCount(refs[0].block) == 0);
  CHECK(failures.refs() == refs);
}

TEST_CASE("Closing ends the waits for events and what waits behind them") {
  GpuFixture fixture;
  Failures failures;
  auto session = fixture.Open({.on_release_failure = failures.Callback()});
  Work never;
  Work behind;
  REQUIRE(session->ReleaseAfter(never.event(), Alloc(*session, 1)).ok());
  REQUIRE(session->ReleaseAfter(behind.event(), Alloc(*session, 1)).ok());
  fixture.gpus.WaitUntilAwaited(never.event());
  CHECK(session->Close().ok());
  CHECK(fixture.daemon().SessionCount() == 0);
  CHECK(fixture.daemon().FreeCount() == 8);
  CHECK(failures.refs().empty());
}

TEST_CASE("A session that the daemon ends waits for no events any more") {
  GpuFixture fixture;
  auto session = fixture.Open();
  auto leases = Alloc(*session, 1);
  Work never;
  REQUIRE(session->ReleaseAfter(never.event(), std::move(leases)).ok());
  fixture.gpus.WaitUntilAwaited(never.event());
  fixture.daemon().EndStreams(absl::AbortedError("ended"));
  CHECK(test::Eventually([&] { return !session->alive(); }));
  auto more = std::vector<BlockLease>(1);
  CHECK(absl::IsNotFound(session->ReleaseAfter(never.event(), std::move(more))));
  session.reset();
}

TEST_CASE("A pool in the host's memory has no events, and says so; the leases are the caller's") {
  Fixture fixture;
  const auto session = fixture.Open({.model_id = "m"});
  auto leases = Alloc(*session, 1);
  Work work;
  const absl::Status published =
      session->PublishAfter(work.event(), {.tokens = kTokens}, Refs(leases)).status();
  CHECK(absl::IsFailedPrecondition(published));
  CHECK(published.message().find("pool 'p' is in the host's memory") != absl::string_view::npos);
  CHECK(absl::IsFailedPrecondition(session->ReleaseAfter(work.event(), std::move(leases))));
  REQUIRE(leases.size() == 1);  // NOLINT(bugprone-use-after-move): untouched.
  CHECK_FALSE(leases[0].is_empty());
  CHECK(fixture.daemon.CallCount("Publish") == 0);
}

TEST_CASE("A process that sees none of the pool's GPUs is told which those are") {
  GpuFixture fixture({"GPU-of-another-pool"});
  const auto session = fixture.Open();
  Work work;
  auto leases = Alloc(*session, 1);
  const absl::Status status = session->ReleaseAfter(work.event(), std::move(leases));
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(GetErrorDetail(status).reason == Reason::kDevice);
  CHECK(status.message().find(kFirstGpu) != absl::string_view::npos);
  CHECK(status.message().find(kSecondGpu) != absl::string_view::npos);
  CHECK(leases.size() == 1);  // NOLINT(bugprone-use-after-move): untouched.
}

}  // namespace
}  // namespace kvpool::client
