// When a kept session stops trying, and what it lets go of.
#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"

#include "client/kept_session.h"
#include "core/error.h"
#include "tests/integration/support/forwarding_transport.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"
#include "tests/unit/client/gpu_fixture.h"
#include "tests/unit/client/kept_fixture.h"

namespace kvpool::client {
namespace {

absl::Status Refusal(absl::StatusCode code, Reason reason = Reason::kUnspecified) {
  return MakeError(code, {.reason = reason}, "refused");
}

// A clock that only pauses move on: no test waits for its time.
struct PausedTime {
  ClientOptions Options() {
    return {.clock = [this] { return TimePoint(Duration(now_ns)); },
            .sleep = [this](Duration pause) { now_ns += pause.count(); }};
  }
  std::atomic<int64_t> now_ns = 1;
};

TEST_CASE("What another attempt would not change ends a kept session for good, told once") {
  const absl::Status refusal = GENERATE(
      Refusal(absl::StatusCode::kInvalidArgument), Refusal(absl::StatusCode::kUnimplemented),
      Refusal(absl::StatusCode::kFailedPrecondition, Reason::kLayoutMismatch),
      Refusal(absl::StatusCode::kFailedPrecondition, Reason::kDevice),
      Refusal(absl::StatusCode::kFailedPrecondition, Reason::kPidCollision));
  CAPTURE(refusal.ToString());
  KeptFixture fixture;
  const auto old = fixture.Wait();
  fixture.daemon->RefuseNext("OpenSession", refusal);
  fixture.Lose();
  CHECK(IsSessionUnknown(fixture.changes.Lost()));
  CHECK(fixture.changes.Now().code() == refusal.code());
  CHECK(GetErrorDetail(fixture.changes.Now()) == GetErrorDetail(refusal));
  CHECK(fixture.kept->Current(KeptFixture::kPatience).status() == fixture.changes.Now());
  CHECK(fixture.kept->Close().ok());
  CHECK(fixture.daemon->CallCount("OpenSession") == 2);
  CHECK(fixture.changes.count() == 1);
}

TEST_CASE("What may pass is tried again") {
  const absl::Status refusal =
      GENERATE(Refusal(absl::StatusCode::kNotFound),
               Refusal(absl::StatusCode::kUnavailable, Reason::kStarting),
               Refusal(absl::StatusCode::kUnavailable, Reason::kDraining),
               Refusal(absl::StatusCode::kResourceExhausted, Reason::kGuarantee),
               Refusal(absl::StatusCode::kResourceExhausted, Reason::kLimit),
               Refusal(absl::StatusCode::kFailedPrecondition, Reason::kDeviceFailed),
               Refusal(absl::StatusCode::kPermissionDenied), Refusal(absl::StatusCode::kInternal));
  CAPTURE(refusal.ToString());
  KeptFixture fixture;
  fixture.daemon->RefuseNext("OpenSession", refusal);
  fixture.Lose();
  CHECK(fixture.changes.Now().ok());
  CHECK(fixture.Wait()->session().Alloc(1).ok());
  CHECK(fixture.daemon->CallCount("OpenSession") == 3);
  CHECK(fixture.daemon->SessionCount() == 1);
}

// Its worker is denied sessions from some time on.
class DenyingTransport final : public test::ForwardingTransport {
 public:
  using test::ForwardingTransport::ForwardingTransport;

  absl::Status OpenSession(const v1::OpenSessionRequest& request, const CallContext& call,
                           v1::OpenSessionResponse& response) override {
    if (is_denying) return absl::PermissionDeniedError("denied");
    return ForwardingTransport::OpenSession(request, call, response);
  }

  std::atomic<bool> is_denying = false;
};

TEST_CASE("A worker that is denied a session for a second on end is denied it for good") {
  test::TempDir directory;
  test::FakeDaemon daemon(directory.path().string());
  const auto transport = std::make_shared<DenyingTransport>(daemon.socket());
  PausedTime time;
  ClientOptions options = time.Options();
  options.socket = daemon.socket();
  options.transport = transport;
  auto client = Client::Create(std::move(options)).value();
  Changes changes;
  const auto kept =
      client.KeepSession({.session = {.pool = "p"}, .on_change = changes.Callback()}).value();
  transport->is_denying = true;
  const int64_t start_ns = time.now_ns;
  daemon.EndStreams(absl::UnavailableError("going"));
  CHECK(absl::IsPermissionDenied(changes.Now()));
  CHECK(Duration(time.now_ns - start_ns) >= std::chrono::seconds(1));
}

TEST_CASE("A kept session that is not to re-attach fails with its first loss") {
  KeptFixture fixture({.reattach_for = Duration{}});
  fixture.Lose();
  CHECK(IsSessionUnknown(fixture.changes.Now()));
  CHECK(fixture.changes.Now() == fixture.changes.Lost());
  CHECK(fixture.kept->Current(KeptFixture::kPatience).status() == fixture.changes.Lost());
  CHECK(fixture.kept->Close().ok());
  CHECK(fixture.daemon->CallCount("OpenSession") == 1);
  CHECK(fixture.changes.count() == 1);
}

TEST_CASE("A kept session stops trying after the time that it is given, and says what it met") {
  PausedTime time;
  KeptFixture fixture({.reattach_for = std::chrono::seconds(10)}, time.Options());
  fixture.Kill();
  CHECK(absl::IsDeadlineExceeded(fixture.changes.Now()));
  CHECK(absl::StrContains(fixture.changes.Now().message(), "no daemon answers at"));
  CHECK(fixture.kept->Current(KeptFixture::kPatience).status() == fixture.changes.Now());
  CHECK(Duration(time.now_ns) >= std::chrono::seconds(10));
}

TEST_CASE("A kept session says what its last attempt met while it is not re-attached") {
  KeptFixture fixture;
  fixture.Kill();
  CHECK(test::Eventually([&] {
    const absl::Status status = fixture.kept->Current().status();
    return absl::IsUnavailable(status) &&
           absl::StrContains(status.message(), "no daemon answers at");
  }));
}

TEST_CASE(
    "A kept session that is closed or destroyed while it tries stops trying, and tells nobody") {
  const bool is_closed_first = GENERATE(true, false);
  KeptFixture fixture;
  SECTION("between two attempts") { fixture.Kill(); }
  SECTION("in an attempt") {
    fixture.daemon->HoldNext("OpenSession");
    fixture.Lose();
    fixture.daemon->WaitUntilHeld();
  }
  SECTION("while it attaches") {
    fixture.daemon->LeaveUnattached();
    fixture.Lose();
    REQUIRE(test::Eventually([&] { return fixture.daemon->CallCount("KeepAlive") == 2; }));
  }
  if (is_closed_first) {
    // What was lost and is not taken note of yet may be vouched for in vain.
    fixture.kept->Close().IgnoreError();
    CHECK(IsSessionUnknown(fixture.kept->Current(KeptFixture::kPatience).status()));
  }
  fixture.kept.reset();
  CHECK(fixture.changes.count() == 0);
}

TEST_CASE("A wait for a session ends when the kept session is closed") {
  KeptFixture fixture;
  fixture.Kill();
  auto current = std::async(std::launch::async,
                            [&] { return fixture.kept->Current(KeptFixture::kPatience).status(); });
  fixture.kept->Close().IgnoreError();
  CHECK(IsSessionUnknown(current.get()));
}

TEST_CASE(
    "A kept session's attempts are not in step, and not further apart than a quarter second") {
  std::mutex mutex;
  std::vector<Duration> pauses;
  PausedTime time;
  ClientOptions options = time.Options();
  options.sleep = [&](Duration pause) {
    time.now_ns += pause.count();
    const std::lock_guard lock(mutex);
    pauses.push_back(pause);
  };
  KeptFixture fixture({.reattach_for = std::chrono::seconds(10)}, std::move(options));
  fixture.Kill();
  fixture.changes.Now().IgnoreError();
  const std::lock_guard lock(mutex);
  REQUIRE(pauses.size() > 20);
  CHECK(pauses.front() <= std::chrono::milliseconds(20));
  // Once they have grown, each is shortened by up to a half.
  const auto [shortest, longest] = std::minmax_element(pauses.begin() + 5, pauses.end());
  CHECK(*shortest >= std::chrono::milliseconds(125));
  CHECK(*longest <= std::chrono::milliseconds(250));
  CHECK(*shortest != *longest);
}

// A daemon on GPUs, each of whose sessions has memory of its own, as those of one daemon after the
// other have.
struct KeptGpuFixture {
  KeptGpuFixture() {
    kept = base.client
               .KeepSession(
                   {.session = {.pool = "p"}, .shards = {0, 1}, .on_change = changes.Callback()})
               .value();
  }

  std::string Epoch(int number) const { return "epoch-" + std::to_string(number); }
  bool IsOpen(int epoch) { return gpus.is_open(Epoch(epoch), test::FakeDaemon::kFirstRegionId); }
  std::shared_ptr<MappedSession> Wait() { return kept->Current(KeptFixture::kPatience).value(); }

  test::FakeGpus gpus{{kFirstGpu, kSecondGpu}};
  int opened_count = 0;  // In the daemon, under its mutex.
  Fixture base{{.spec = GpuSpec(),
                .edit_opened =
                    [this](v1::OpenSessionResponse& response) {
                      MoveToGpus(response);
                      response.set_daemon_epoch(Epoch(++opened_count));
                    }},
               &gpus};
  Changes changes;
  std::unique_ptr<KeptSession> kept;
};

TEST_CASE("Lost memory of GPUs that nobody holds is closed before there is other memory") {
  KeptGpuFixture fixture;
  CHECK(fixture.Wait()->mapping(1).device_ordinal() == 1);
  CHECK(fixture.IsOpen(1));
  fixture.base.daemon.HoldNext("OpenSession");
  fixture.base.daemon.EndStreams(absl::UnavailableError("going"));
  fixture.base.daemon.WaitUntilHeld();
  CHECK_FALSE(fixture.IsOpen(1));
  fixture.base.daemon.Resume();
  CHECK(fixture.Wait()->mapping().is_on_gpu());
  CHECK(fixture.IsOpen(2));
}

TEST_CASE("Lost memory of GPUs stays open for who holds it, until it is let go of") {
  KeptGpuFixture fixture;
  auto old = fixture.Wait();
  fixture.base.daemon.EndStreams(absl::UnavailableError("going"));
  CHECK(fixture.changes.Now().ok());
  CHECK(fixture.IsOpen(1));
  CHECK(fixture.IsOpen(2));
  old.reset();
  CHECK_FALSE(fixture.IsOpen(1));
}

TEST_CASE("A GPU that cannot be used any more ends a kept session for good") {
  KeptGpuFixture fixture;
  fixture.gpus.Refuse(Refusal(absl::StatusCode::kFailedPrecondition, Reason::kDevice));
  fixture.base.daemon.EndStreams(absl::UnavailableError("going"));
  CHECK(GetErrorDetail(fixture.changes.Now()).reason == Reason::kDevice);
  CHECK(test::Eventually([&] { return fixture.base.daemon.SessionCount() == 0; }));
}

TEST_CASE("Memory that cannot be opened since its daemon has gone meanwhile is tried again") {
  KeptGpuFixture fixture;
  fixture.gpus.Refuse(Refusal(absl::StatusCode::kFailedPrecondition, Reason::kDevice));
  fixture.base.daemon.HoldNext("Alloc");
  fixture.base.daemon.EndStreams(absl::UnavailableError("going"));
  fixture.base.daemon.WaitUntilHeld();
  fixture.gpus.Refuse(absl::OkStatus());
  fixture.base.daemon.EndStreams(absl::UnavailableError("gone"));
  CHECK(fixture.changes.Now().ok());
  fixture.base.daemon.Resume();
  CHECK(fixture.Wait()->session().alive());
}

}  // namespace
}  // namespace kvpool::client
