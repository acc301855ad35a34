#include "server/session_hub.h"

#include <chrono>
#include <string>
#include <vector>

#include "core/error.h"
#include "server/pool_registry.h"
#include "tests/support/catch.h"
#include "tests/support/fake_device.h"

namespace kvpool::server {
namespace {

// Notes what it is told, in words.
class NotedStream final : public SessionStream {
 public:
  void Send(const v1::Notice& notice) override {
    notes.push_back(v1::Notice::Kind_Name(notice.kind()));
    last = notice;
  }
  void End(const absl::Status& status) override {
    notes.push_back(absl::StatusCodeToString(status.code()));
    end = status;
  }

  std::vector<std::string> notes;
  v1::Notice last;
  absl::Status end;
};

using Notes = std::vector<std::string>;

SessionId MakeId(uint8_t first, uint8_t second = 0) { return {.bytes = {first, second}}; }

std::shared_ptr<const Process> MakeProcess(uint64_t id, ReclaimProof proof) {
  return std::make_shared<const Process>(ProcessId{id}, 100, 1000, proof);
}

struct Fixture {
  Fixture() {
    PoolSpec spec;
    spec.name = "p";
    spec.num_layers = 1;
    spec.num_kv_heads = 1;
    spec.head_dim = 64;
    spec.num_blocks = 4;
    const auto served = registry.Create(spec);
    REQUIRE(served.ok());
    pool = served->pool;
  }

  std::shared_ptr<NotedStream> AddWithStream(const SessionId& session) {
    hub.Add(session, pool, process);
    auto stream = std::make_shared<NotedStream>();
    hub.SetStream(session, stream);
    return stream;
  }

  int changes = 0;
  test::FakeDevice device;
  DeviceTable devices{device};
  SessionHub hub{[this] { ++changes; }};
  PoolRegistry registry{{.limits = LedgerLimits{},
                         .trace = false,
                         .poison = false,
                         .clock = [] { return std::chrono::steady_clock::now(); }},
                        devices,
                        hub};
  std::shared_ptr<Pool> pool;
  std::shared_ptr<const Process> process = MakeProcess(1, ReclaimProof::kPidfd);
};

TEST_CASE("A session is known from Add until it is forgotten, its end included") {
  Fixture f;
  CHECK(f.hub.FindPool(MakeId(1)) == nullptr);
  f.hub.Add(MakeId(1), f.pool, f.process);
  CHECK(f.hub.FindPool(MakeId(1)) == f.pool);
  f.hub.OnSessionEnded(MakeId(1), SessionEnd::kDetached);
  CHECK(f.hub.FindPool(MakeId(1)) == f.pool);
  CHECK(f.hub.size() == 1);
  CHECK(f.hub.live_count() == 0);
  f.hub.OnSessionForgotten(MakeId(1));
  CHECK(f.hub.FindPool(MakeId(1)) == nullptr);
  CHECK(f.hub.size() == 0);
}

TEST_CASE("A session is found by any prefix of its id") {
  Fixture f;
  f.hub.Add(MakeId(0x1a, 0x2b), f.pool, f.process);
  f.hub.Add(MakeId(0x1a, 0x3c), f.pool, f.process);
  CHECK(f.hub.FindByPrefix("1a").size() == 2);
  CHECK(f.hub.FindByPrefix("1a2") == std::vector{MakeId(0x1a, 0x2b)});
  CHECK(f.hub.FindByPrefix(MakeId(0x1a, 0x3c).ToString()) == std::vector{MakeId(0x1a, 0x3c)});
  CHECK(f.hub.FindByPrefix("1b").empty());
  CHECK(f.hub.FindByPrefix("1A").empty());
  CHECK(f.hub.FindByPrefix(MakeId(0x1a, 0x3c).ToString() + "0").empty());
}

TEST_CASE("A session's processes stay known until it is forgotten") {
  Fixture f;
  std::shared_ptr<const Process> joined = MakeProcess(2, ReclaimProof::kDelay);
  const std::weak_ptr<const Process> watched = joined;
  f.hub.Add(MakeId(1), f.pool, f.process);
  CHECK(f.hub.Proof(MakeId(1)) == ReclaimProof::kPidfd);
  f.hub.AddProcess(MakeId(1), joined);
  f.hub.AddProcess(MakeId(1), joined);
  CHECK(joined.use_count() == 2);
  CHECK(f.hub.Proof(MakeId(1)) == ReclaimProof::kDelay);
  joined.reset();
  f.hub.OnSessionEnded(MakeId(1), SessionEnd::kDetached);
  CHECK_FALSE(watched.expired());
  f.hub.OnSessionForgotten(MakeId(1));
  CHECK(watched.expired());
  // Of a session that is not there, it is nobody's.
  f.hub.AddProcess(MakeId(1), f.process);
  CHECK(f.process.use_count() == 1);
}

TEST_CASE("Each end of a session ends its stream as the API says") {
  struct Case {
    SessionEnd reason;
    Notes notes;
  };
  const std::vector<Case> cases = {
      {SessionEnd::kClosed, {"OK"}},
      {SessionEnd::kTerminated, {"KIND_TERMINATED", "NOT_FOUND"}},
      {SessionEnd::kExpired, {"NOT_FOUND"}},
      {SessionEnd::kDetached, {"NOT_FOUND"}},
      {SessionEnd::kProcessGone, {"NOT_FOUND"}},
      {SessionEnd::kParentEnded, {"NOT_FOUND"}},
  };
  for (const Case& c : cases) {
    CAPTURE(static_cast<int>(c.reason));
    Fixture f;
    const auto stream = f.AddWithStream(MakeId(1));
    f.hub.OnSessionEnded(MakeId(1), c.reason);
    CHECK(stream->notes == c.notes);
    if (!stream->end.ok()) {
      CHECK(GetErrorDetail(stream->end).reason == Reason::kSessionUnknown);
    }
  }
}

TEST_CASE("A stream that comes after its session ended is ended at once") {
  Fixture f;
  f.hub.Add(MakeId(1), f.pool, f.process);
  f.hub.OnSessionEnded(MakeId(1), SessionEnd::kClosed);
  const auto late = std::make_shared<NotedStream>();
  f.hub.SetStream(MakeId(1), late);
  CHECK(late->notes == Notes{"OK"});

  f.hub.Forget(MakeId(1));
  const auto later = std::make_shared<NotedStream>();
  f.hub.SetStream(MakeId(1), later);
  CHECK(later->notes == Notes{"NOT_FOUND"});
}

TEST_CASE("Nothing follows the end of a stream") {
  Fixture f;
  const auto stream = f.AddWithStream(MakeId(1));
  f.hub.EndAll(absl::UnavailableError("the daemon stops"));
  f.hub.OnMemberGone(MakeId(1));
  f.hub.OnSessionEnded(MakeId(1), SessionEnd::kTerminated);
  CHECK(stream->notes == Notes{"UNAVAILABLE"});
}

TEST_CASE("A stream that was dropped is told nothing, and only it") {
  Fixture f;
  const auto first = f.AddWithStream(MakeId(1));
  const NotedStream stranger;
  f.hub.DropStream(MakeId(1), &stranger);
  f.hub.OnMemberGone(MakeId(1));
  CHECK(first->notes == Notes{"KIND_MEMBER_GONE"});
  f.hub.DropStream(MakeId(1), first.get());
  CHECK(first.use_count() == 1);
  f.hub.OnMemberGone(MakeId(1));
  CHECK(first->notes.size() == 1);
  f.hub.DropStream(MakeId(2), first.get());
  CHECK(first->notes.size() == 1);
}

TEST_CASE("What all streams are told, later ones are told too, with what is left of the time") {
  Fixture f;
  const auto early = f.AddWithStream(MakeId(1));
  v1::Notice notice;
  notice.set_kind(v1::Notice::KIND_DRAINING);
  notice.mutable_deadline()->set_seconds(30);
  f.hub.SendAll(notice);
  const auto late = f.AddWithStream(MakeId(2));
  CHECK(early->notes == Notes{"KIND_DRAINING"});
  CHECK(late->notes == Notes{"KIND_DRAINING"});
  CHECK(early->last.deadline().seconds() == 30);
  CHECK(late->last.deadline().seconds() <= 30);
}

TEST_CASE("The hub tells when a session is added or ends") {
  Fixture f;
  f.hub.Add(MakeId(1), f.pool, f.process);
  CHECK(f.changes == 1);
  f.hub.OnSessionEnded(MakeId(1), SessionEnd::kClosed);
  CHECK(f.changes == 2);
}

TEST_CASE("The end of a session that the pool ends reaches its stream") {
  Fixture f;
  const SessionId session = MakeId(1);
  f.hub.Add(session, f.pool, f.process);
  REQUIRE(f.pool
              ->OpenSession({.id = session,
                             .tenant = "t",
                             .client_name = "",
                             .model_id = "",
                             .pid = 1,
                             .uid = 0,
                             .process = f.process->id(),
                             .ttl = std::chrono::seconds(10),
                             .guaranteed_blocks = 0,
                             .join = std::nullopt})
              .ok());
  REQUIRE(f.pool->Attach({.session = session, .tenant = "t"}, f.process->id()).ok());
  const auto stream = std::make_shared<NotedStream>();
  f.hub.SetStream(session, stream);
  f.registry.ProcessGone(f.process->id());
  CHECK(stream->notes == Notes{"NOT_FOUND"});
}

}  // namespace
}  // namespace kvpool::server
