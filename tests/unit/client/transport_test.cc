// A client over a transport and in a time of the test's own: nothing here waits.
#include "client/transport.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <vector>

#include "client/client.h"
#include "core/error.h"
#include "proto/convert/layout_convert.h"
#include "tests/support/catch.h"

namespace kvpool::client {
namespace {

using std::chrono::seconds;

// A clock moved by hand. Thread-safe.
class ManualClock {
 public:
  TimePoint now() {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  void Advance(Duration duration) {
    const std::lock_guard lock(mutex_);
    now_ += duration;
  }

 private:
  std::mutex mutex_;
  TimePoint now_{};
};

// One session in a pool of one block, and no daemon. Alloc does as it is told.
class SimulatedTransport final : public Transport {
 public:
  absl::Status OpenSession(const v1::OpenSessionRequest& /*request*/, const CallContext& call,
                           v1::OpenSessionResponse& response) override {
    ++open_count;
    if (on_open) {
      if (absl::Status status = on_open(call.timeout); !status.ok()) return status;
    }
    PoolSpec spec;
    spec.name = "p";
    spec.num_layers = 1;
    spec.num_kv_heads = 1;
    spec.head_dim = 16;
    spec.num_blocks = 1;
    response.set_session_id(session_id);
    *response.mutable_layout() = LayoutToProto(PlanPool(spec).value());
    response.add_regions();  // Of no kind that can be mapped.
    response.mutable_limits()->mutable_max_wait()->set_seconds(30);
    return absl::OkStatus();
  }
  absl::Status CloseSession(const v1::CloseSessionRequest& /*request*/, const CallContext& /*call*/,
                            v1::CloseSessionResponse& /*response*/) override {
    return absl::OkStatus();
  }
  absl::Status Alloc(const v1::AllocRequest& request, const CallContext& call,
                     v1::AllocResponse& response) override {
    allocs.push_back(request);
    return on_alloc(call.timeout, response);
  }
  absl::Status IncRef(const v1::IncRefRequest& /*request*/, const CallContext& /*call*/,
                      v1::IncRefResponse& /*response*/) override {
    return absl::OkStatus();
  }
  absl::Status DecRef(const v1::DecRefRequest& request, const CallContext& /*call*/,
                      v1::DecRefResponse& /*response*/) override {
    dec_ref_keys.push_back(request.idempotency_key());
    return on_dec_ref ? on_dec_ref() : absl::OkStatus();
  }
  absl::Status Publish(const v1::PublishRequest& /*request*/, const CallContext& /*call*/,
                       v1::PublishResponse& response) override {
    response = publish_answer;
    return absl::OkStatus();
  }
  absl::Status Lookup(const v1::LookupRequest& /*request*/, const CallContext& /*call*/,
                      v1::LookupResponse& response) override {
    response = lookup_answer;
    return absl::OkStatus();
  }
  absl::Status Acquire(const v1::AcquireRequest& request, const CallContext& call,
                       v1::AcquireResponse& response) override {
    acquires.push_back(request);
    acquire_timeouts.push_back(call.timeout);
    response = acquire_answer;
    return absl::OkStatus();
  }
  absl::Status Evict(const v1::EvictRequest& /*request*/, const CallContext& /*call*/,
                     v1::EvictResponse& response) override {
    response = evict_answer;
    return absl::OkStatus();
  }
  absl::Status FillBlocks(const v1::FillBlocksRequest& /*request*/, const CallContext& /*call*/,
                          v1::FillBlocksResponse& /*response*/) override {
    return absl::OkStatus();
  }
  absl::Status CopyBlocks(const v1::CopyBlocksRequest& /*request*/, const CallContext& /*call*/,
                          v1::CopyBlocksResponse& /*response*/) override {
    return absl::OkStatus();
  }
  absl::Status KeepAlive(
      const v1::KeepAliveRequest& /*request*/, Cancellation& cancellation,
      absl::FunctionRef<void(const v1::KeepAliveResponse&)> on_message) override {
    v1::KeepAliveResponse attached;
    attached.mutable_notice()->set_kind(v1::Notice::KIND_ATTACHED);
    on_message(attached);
    std::promise<void> cancelled;
    const Cancellation::Scope scope(cancellation, [&] { cancelled.set_value(); });
    cancelled.get_future().wait();
    return absl::CancelledError();
  }
  absl::Status ReadBlocks(
      const v1::ReadBlocksRequest& /*request*/, const CallContext& /*call*/,
      absl::FunctionRef<bool(const v1::ReadBlocksResponse&)> /*on_message*/) override {
    return absl::OkStatus();
  }
  absl::Status WriteBlocks(const CallContext& /*call*/,
                           absl::FunctionRef<bool(v1::WriteBlocksRequest&)> /*next*/,
                           v1::WriteBlocksResponse& /*response*/) override {
    return absl::OkStatus();
  }
  absl::StatusOr<OwnedFd> GetRegionFd(const v1::RegionFdRequest& /*request*/,
                                      const CallContext& /*call*/,
                                      v1::RegionFdResponse& /*response*/) override {
    return absl::UnimplementedError("no memory");
  }

  std::string session_id = std::string(32, 'a');
  int open_count = 0;
  std::function<absl::Status(Duration timeout)> on_open;
  std::function<absl::Status(Duration timeout, v1::AllocResponse& response)> on_alloc;
  std::vector<v1::AllocRequest> allocs;
  std::function<absl::Status()> on_dec_ref;
  std::vector<uint64_t> dec_ref_keys;
  v1::PublishResponse publish_answer;
  v1::LookupResponse lookup_answer;
  v1::AcquireResponse acquire_answer;
  v1::EvictResponse evict_answer;
  std::vector<v1::AcquireRequest> acquires;
  std::vector<Duration> acquire_timeouts;
};

struct Simulation {
  ManualClock clock;
  std::shared_ptr<SimulatedTransport> transport = std::make_shared<SimulatedTransport>();
  Client client = Client::Create({.clock = [this] { return clock.now(); },
                                  .sleep = [this](Duration pause) { clock.Advance(pause); },
                                  .transport = transport})
                      .value();
};

absl::Status Grant(v1::AllocResponse& response) {
  response.mutable_blocks()->add_block_ids(0);
  response.mutable_blocks()->add_generations(5);
  return absl::OkStatus();
}

TEST_CASE("An answer that is too late is asked for again under the same key") {
  Simulation simulation;
  const auto session = simulation.client.OpenSession({.pool = "p"}).value();
  simulation.transport->on_alloc = [&](Duration timeout, v1::AllocResponse& response) {
    if (simulation.transport->allocs.size() == 2) return Grant(response);
    simulation.clock.Advance(timeout);
    return absl::DeadlineExceededError("late");
  };
  const auto leases = session->Alloc(1);
  REQUIRE(leases.ok());
  CHECK((*leases)[0].generation() == Generation{5});
  const auto& allocs = simulation.transport->allocs;
  REQUIRE(allocs.size() == 2);
  CHECK(allocs[0].SerializeAsString() == allocs[1].SerializeAsString());
  CHECK(allocs[0].idempotency_key() != 0);
}

TEST_CASE("Every attempt has a deadline, and a wait of its own on top, cut to the daemon's limit") {
  Simulation simulation;
  const auto session = simulation.client.OpenSession({.pool = "p"}).value();
  std::vector<Duration> timeouts;
  simulation.transport->on_alloc = [&](Duration timeout, v1::AllocResponse& /*response*/) {
    timeouts.push_back(timeout);
    return absl::ResourceExhaustedError("full");
  };
  CHECK_FALSE(session->Alloc(1).ok());
  CHECK_FALSE(session->Alloc(1, {.wait = seconds(10)}).ok());
  CHECK_FALSE(session->Alloc(1, {.wait = Duration::max()}).ok());
  CHECK(timeouts == std::vector<Duration>{seconds(5), seconds(15), seconds(35)});
  const auto& allocs = simulation.transport->allocs;
  CHECK_FALSE(allocs[0].has_wait());
  CHECK(allocs[1].wait().seconds() == 10);
  CHECK(allocs[2].wait().seconds() == 30);
}

TEST_CASE("A daemon that never answers is given up after the time for all attempts") {
  Simulation simulation;
  const auto session = simulation.client.OpenSession({.pool = "p"}).value();
  const TimePoint start = simulation.clock.now();
  simulation.transport->on_alloc = [&](Duration timeout, v1::AllocResponse& /*response*/) {
    simulation.clock.Advance(timeout);
    return absl::DeadlineExceededError("late");
  };
  CHECK(absl::IsDeadlineExceeded(session->Alloc(1).status()));
  CHECK(simulation.clock.now() - start <= seconds(15));
  CHECK(simulation.transport->allocs.size() == 3);
}

TEST_CASE("Opening waits for a daemon that starts") {
  Simulation simulation;
  simulation.transport->on_open = [&](Duration /*timeout*/) {
    if (simulation.transport->open_count == 6) return absl::OkStatus();
    return MakeError(absl::StatusCode::kUnavailable, {.reason = Reason::kStarting}, "starting");
  };
  CHECK(simulation.client.OpenSession({.pool = "p"}).ok());
  CHECK(simulation.transport->open_count == 6);
}

TEST_CASE("Opening waits a second for a daemon that was never met, and longer for one that was") {
  Simulation simulation;
  const auto nobody = [](Duration /*timeout*/) { return absl::UnavailableError("nobody"); };
  const auto opening_takes = [&simulation] {
    const TimePoint start = simulation.clock.now();
    CHECK(absl::IsUnavailable(simulation.client.OpenSession({.pool = "p"}).status()));
    return simulation.clock.now() - start;
  };
  simulation.transport->on_open = nobody;
  Duration time = opening_takes();
  CHECK(time >= std::chrono::milliseconds(500));
  CHECK(time <= seconds(2));
  simulation.transport->on_open = nullptr;
  CHECK(simulation.client.OpenSession({.pool = "p"}).ok());
  simulation.transport->on_open = nobody;
  time = opening_takes();
  CHECK(time >= seconds(10));
  CHECK(time <= seconds(15));
}

TEST_CASE("Answers that make no sense are INTERNAL") {
  Simulation simulation;
  SECTION("no session id") {
    simulation.transport->session_id = "short";
    CHECK(absl::IsInternal(simulation.client.OpenSession({.pool = "p"}).status()));
  }
  SECTION("a block that the pool does not have") {
    const auto session = simulation.client.OpenSession({.pool = "p"}).value();
    simulation.transport->on_alloc = [](Duration /*timeout*/, v1::AllocResponse& response) {
      response.mutable_blocks()->add_block_ids(1);
      response.mutable_blocks()->add_generations(5);
      return absl::OkStatus();
    };
    CHECK(absl::IsInternal(session->Alloc(1).status()));
  }
}

TEST_CASE("Answers about prefixes that make no sense are INTERNAL") {
  Simulation simulation;
  const auto session = simulation.client.OpenSession({.pool = "p"}).value();
  SimulatedTransport& transport = *simulation.transport;
  const BlockRef block{.block = BlockId{0}, .generation = Generation{5}};
  SECTION("a block that the pool does not have") {
    transport.lookup_answer.mutable_blocks()->add_block_ids(1);
    transport.lookup_answer.mutable_blocks()->add_generations(5);
    *transport.acquire_answer.mutable_blocks() = transport.lookup_answer.blocks();
    transport.evict_answer.add_block_ids(1);
    CHECK(absl::IsInternal(session->Lookup({}).status()));
    CHECK(absl::IsInternal(session->Peek({}).status()));
    CHECK(absl::IsInternal(session->Acquire({}, 1).status()));
    CHECK(absl::IsInternal(session->Evict({{block}}).status()));
    CHECK(absl::IsInternal(session->EvictNext(1).status()));
  }
  SECTION("more blocks matched than given") {
    transport.acquire_answer.set_matched_blocks(1);
    CHECK(absl::IsInternal(session->Acquire({}, 1).status()));
  }
  SECTION("a duplicate of none of the call's blocks, or one that is no block") {
    v1::PublishResponse::Duplicate& duplicate = *transport.publish_answer.add_duplicates();
    duplicate.set_generation(5);
    CHECK(session->Publish({}, {{block}}).ok());
    duplicate.set_index(1);
    CHECK(absl::IsInternal(session->Publish({}, {{block}}).status()));
    duplicate.set_index(0);
    duplicate.set_block_id(1);
    CHECK(absl::IsInternal(session->Publish({}, {{block}}).status()));
    duplicate.set_block_id(0);
    duplicate.set_generation(0);
    CHECK(absl::IsInternal(session->Publish({}, {{block}}).status()));
  }
}

TEST_CASE("Acquire has a deadline, its wait on top, and says what the new blocks are to hold") {
  Simulation simulation;
  const auto session = simulation.client.OpenSession({.pool = "p"}).value();
  CHECK(session->Acquire({}, 3, {.max_new_blocks = 2, .fill = Fill::kZero}).ok());
  CHECK(session->Acquire({}, 1, {.wait = seconds(10)}).ok());
  CHECK(session->Acquire({}, 1, {.wait = Duration::max()}).ok());
  CHECK(simulation.transport->acquire_timeouts ==
        std::vector<Duration>{seconds(5), seconds(15), seconds(35)});
  const auto& acquires = simulation.transport->acquires;
  CHECK(acquires[0].total_blocks() == 3);
  CHECK(acquires[0].max_new_blocks() == 2);
  CHECK(acquires[0].fill() == v1::FILL_ZERO);
  CHECK_FALSE(acquires[0].has_wait());
  CHECK(acquires[1].wait().seconds() == 10);
  CHECK(acquires[2].wait().seconds() == 30);
}

TEST_CASE("What Done gave back without an answer is not given back again") {
  Simulation simulation;
  const auto session = simulation.client.OpenSession({.pool = "p"}).value();
  SimulatedTransport& transport = *simulation.transport;
  transport.on_alloc = [](Duration /*timeout*/, v1::AllocResponse& response) {
    return Grant(response);
  };
  auto leases = session->Alloc(1).value();
  transport.on_dec_ref = [] { return absl::UnavailableError("no answer"); };
  CHECK(absl::IsUnavailable(session->Done(leases)));
  CHECK(leases[0].is_empty());
  leases.clear();
  CHECK(session->Flush().ok());
  const std::vector<uint64_t>& keys = transport.dec_ref_keys;
  CHECK(keys.size() > 1);
  CHECK(std::ranges::count(keys, keys[0]) == static_cast<std::ptrdiff_t>(keys.size()));
}

TEST_CASE("What Alloc was to release is empty where no answer says that it is not released") {
  Simulation simulation;
  const auto session = simulation.client.OpenSession({.pool = "p"}).value();
  SimulatedTransport& transport = *simulation.transport;
  const auto grant = [](Duration /*timeout*/, v1::AllocResponse& response) {
    return Grant(response);
  };
  absl::Status last = absl::UnavailableError("no answer");
  const auto lose = [&](Duration /*timeout*/, v1::AllocResponse& /*response*/) { return last; };
  SECTION("The session lives") {}
  SECTION("The daemon knows the session no more when it is asked again") {
    last = MakeError(absl::StatusCode::kNotFound, {.reason = Reason::kSessionUnknown}, "unknown");
  }
  transport.on_alloc = grant;
  auto leases = session->Alloc(1).value();
  transport.on_alloc = lose;
  CHECK(session->Alloc(1, {.release = leases}).status().code() == last.code());
  CHECK(leases[0].is_empty());
  // A second time it could be another lease's reference.
  leases.clear();
  session->Flush().IgnoreError();
  CHECK(transport.dec_ref_keys.empty());
}

TEST_CASE("What Done gave back as the session ended is empty") {
  Simulation simulation;
  const auto session = simulation.client.OpenSession({.pool = "p"}).value();
  SimulatedTransport& transport = *simulation.transport;
  transport.on_alloc = [](Duration /*timeout*/, v1::AllocResponse& response) {
    return Grant(response);
  };
  auto leases = session->Alloc(1).value();
  transport.on_dec_ref = [&] {
    if (transport.dec_ref_keys.size() == 1) return absl::UnavailableError("no answer");
    return MakeError(absl::StatusCode::kNotFound, {.reason = Reason::kSessionUnknown}, "unknown");
  };
  CHECK(absl::IsNotFound(session->Done(leases)));
  CHECK(leases[0].is_empty());
}

TEST_CASE("Memory that is not the host's is UNIMPLEMENTED to map") {
  Simulation simulation;
  const auto session = simulation.client.OpenSession({.pool = "p"}).value();
  CHECK(absl::IsUnimplemented(session->Map().status()));
}

}  // namespace
}  // namespace kvpool::client
