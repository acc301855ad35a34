#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "tests/support/catch.h"
#include "tests/support/eventually.h"
#include "tests/unit/server_rpc/test_server.h"

namespace kvpool::test {
namespace {

using Stub = v1::BlockService::Stub;
using Event = v1::WatchPrefixesResponse;

constexpr uint32_t kBlockSize = 16;  // Of the pool "main".

v1::WatchPrefixesRequest OfMain() {
  v1::WatchPrefixesRequest request;
  request.set_pool("main");
  return request;
}

v1::WatchPrefixesRequest After(uint64_t sequence, const std::string& epoch = "epoch") {
  v1::WatchPrefixesRequest request = OfMain();
  request.set_daemon_epoch(epoch);
  request.set_after_sequence(sequence);
  return request;
}

// A stream of WatchPrefixes.
class Watch {
 public:
  explicit Watch(Connection& connection, const v1::WatchPrefixesRequest& request = OfMain())
      : reader_(connection.inspect->WatchPrefixes(&context_, request)) {}
  ~Watch() {
    if (reader_ != nullptr) context_.TryCancel();
  }

  // The next event; absent at the end.
  std::optional<Event> Next() {
    Event event;
    if (!reader_->Read(&event)) return std::nullopt;
    return event;
  }
  // The next event, of which there must be one.
  Event Get() {
    std::optional<Event> event = Next();
    REQUIRE(event.has_value());
    return *std::move(event);
  }
  // Up to the snapshot's end, whose number it returns.
  uint64_t SkipSnapshot() {
    while (true) {
      const Event event = Get();
      if (event.has_snapshot_end()) return event.sequence();
    }
  }
  std::string End() {
    while (Next().has_value()) {
    }
    return Finish();
  }
  std::string Finish() {
    const grpc::Status status = reader_->Finish();
    reader_.reset();
    return CodeOf(status);
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<Event>> reader_;
};

// A worker with a session.
struct Worker {
  explicit Worker(TestServer& server, const std::string& tenant = "tenant-a")
      : connection(server.Connect(v1::ROLE_WORKER, tenant)), session(OpenWithModel(connection)) {}

  // Publishes `count` blocks, whose tokens are made from `seed`.
  v1::Blocks Publish(uint32_t count, uint32_t seed, const std::string& adapter = "") {
    v1::PublishRequest request;
    request.set_session_id(session);
    request.mutable_prefix()->mutable_space()->set_adapter(adapter);
    for (uint32_t i = 0; i < count * kBlockSize; ++i) {
      request.mutable_prefix()->add_tokens(seed * 100'000 + i);
    }
    *request.mutable_blocks() = Alloc(connection, session, count);
    const grpc::Status status = Call(*connection.blocks, &Stub::Publish, request);
    REQUIRE(status.error_message().empty());
    return request.blocks();
  }
  void Evict(const v1::Blocks& blocks) {
    v1::EvictRequest request;
    request.set_session_id(session);
    *request.mutable_blocks() = blocks;
    REQUIRE(Call(*connection.blocks, &Stub::Evict, request).ok());
  }
  void Drop(const v1::Blocks& blocks) {
    v1::DecRefRequest request;
    request.set_session_id(session);
    *request.mutable_blocks() = blocks;
    REQUIRE(Call(*connection.blocks, &Stub::DecRef, request).ok());
  }

  Connection connection;
  std::string session;
};

TEST_CASE("A watcher is told what is findable, and then every change") {
  TestServer server;
  Worker worker(server);
  const v1::Blocks known = worker.Publish(2, 1, "lora");
  Watch watch(worker.connection);
  const Event cleared = watch.Get();
  CHECK(cleared.has_cleared());
  CHECK(cleared.sequence() == 0);
  CHECK(cleared.cleared().tenant() == "tenant-a");
  const Event stored = watch.Get();
  REQUIRE(stored.has_stored());
  CHECK(stored.sequence() == 0);
  CHECK(stored.stored().keys_size() == 2);
  CHECK(stored.stored().blocks().block_ids(1) == known.block_ids(1));
  CHECK(stored.stored().blocks().generations(1) == known.generations(1));
  CHECK(stored.stored().parent_key().empty());
  CHECK(stored.stored().block_size() == kBlockSize);
  CHECK(stored.stored().model_id() == "llama");
  CHECK(stored.stored().adapter() == "lora");
  CHECK(stored.stored().tenant() == "tenant-a");
  const Event end = watch.Get();
  CHECK(end.has_snapshot_end());
  CHECK(end.daemon_epoch() == "epoch");

  const v1::Blocks added = worker.Publish(1, 2);
  const Event live = watch.Get();
  REQUIRE(live.has_stored());
  CHECK(live.sequence() == end.sequence() + 1);
  CHECK(live.stored().keys(0).size() == 32);
  CHECK(live.stored().tokens().empty());
  worker.Evict(added);
  const Event removed = watch.Get();
  REQUIRE(removed.has_removed());
  CHECK(removed.sequence() == end.sequence() + 2);
  CHECK(removed.removed().keys(0) == live.stored().keys(0));
}

TEST_CASE("Tokens are told to workers and operators who ask, and not to inspectors") {
  TestServer server;
  Worker worker(server);
  v1::WatchPrefixesRequest request = OfMain();
  request.set_with_tokens(true);
  Connection inspector = server.Connect(v1::ROLE_INSPECTOR);
  Connection operators = server.Connect(v1::ROLE_OPERATOR);
  CHECK(Watch(inspector, request).End() == "PERMISSION_DENIED");
  Watch own(worker.connection, request);
  Watch all(operators, request);
  own.SkipSnapshot();
  all.SkipSnapshot();
  worker.Publish(2, 3);
  for (Watch* watch : {&own, &all}) {
    const Event event = watch->Get();
    REQUIRE(event.stored().tokens_size() == 2 * kBlockSize);
    CHECK(event.stored().tokens(0) == 300'000);
    CHECK(event.stored().tokens(31) == 300'031);
  }
}

TEST_CASE("A worker is told of its own tenant's, an inspector of everybody's") {
  TestServer server;
  Worker a(server, "tenant-a");
  Worker b(server, "tenant-b");
  Connection inspector = server.Connect(v1::ROLE_INSPECTOR);
  Watch own(a.connection);
  Watch all(inspector);
  own.SkipSnapshot();
  CHECK(all.Get().cleared().tenant().empty());
  all.SkipSnapshot();
  b.Publish(1, 1);
  a.Publish(1, 1);
  const Event event = own.Get();
  CHECK(event.stored().tenant() == "tenant-a");
  CHECK(all.Get().stored().tenant() == "tenant-b");
  const Event both = all.Get();
  CHECK(both.stored().tenant() == "tenant-a");
  CHECK(both.sequence() == event.sequence());
}

TEST_CASE("A watcher goes on after the number that it has, of this daemon alone") {
  TestServer server;
  Worker worker(server);
  const uint64_t last = Watch(worker.connection).SkipSnapshot();
  worker.Publish(1, 1);
  worker.Publish(1, 2);
  Watch resumed(worker.connection, After(last));
  CHECK(resumed.Get().sequence() == last + 1);
  CHECK(resumed.Get().sequence() == last + 2);
  CHECK(Watch(worker.connection, After(last, "another epoch")).Get().has_cleared());
  CHECK(Watch(worker.connection, After(last, "")).Get().has_cleared());
  CHECK(Watch(worker.connection, After(last - 1)).Get().has_cleared());
  CHECK(Watch(worker.connection, After(last + 3)).Get().has_cleared());
}

TEST_CASE("A heartbeat has the latest number, another tenant's changes included") {
  TestServer server;
  Worker a(server, "tenant-a");
  Worker b(server, "tenant-b");
  Watch watch(a.connection);
  const uint64_t last = watch.SkipSnapshot();
  b.Publish(3, 1);
  server.Pass(server::kHeartbeatInterval);
  const Event event = watch.Get();
  CHECK(event.has_heartbeat());
  CHECK(event.sequence() == last + 3);
  CHECK(event.daemon_epoch() == "epoch");
}

TEST_CASE("Whoever does not read is told to resync, and slows nobody") {
  TestServerOptions options;
  options.limits.max_logged_changes = 64;
  TestServer server(options);
  Worker worker(server);
  Watch slow(worker.connection);
  slow.SkipSnapshot();
  // More than all buffers on the way have room for: some 8 MiB.
  for (int i = 0; i < 4'000; ++i) {
    const v1::Blocks blocks = worker.Publish(1, static_cast<uint32_t>(i), std::string(1'000, 'a'));
    worker.Evict(blocks);
    worker.Drop(blocks);
  }
  std::optional<Event> last;
  while (std::optional<Event> event = slow.Next()) last = std::move(event);
  REQUIRE(last.has_value());
  CHECK(last->has_resync());
  CHECK_FALSE(last->resync().reason().empty());
  CHECK(slow.Finish() == "OK");
}

TEST_CASE("A stream ends when its pool is deleted") {
  TestServer server;
  Connection operators = server.Connect(v1::ROLE_OPERATOR);
  Watch watch(operators);
  watch.SkipSnapshot();
  v1::DeletePoolRequest request;
  request.set_name("main");
  REQUIRE(Call(*operators.admin, &v1::AdminService::Stub::DeletePool, request).ok());
  // Where a step of the stream had the pool in hand, it goes when time passes.
  server.Pass(std::chrono::seconds(1));
  CHECK(watch.End() == "ABORTED");
  CHECK(Eventually([&] { return server.watches().size() == 0; }));
}

TEST_CASE("A stream ends when the daemon does, and when its caller goes") {
  TestServer server;
  Connection inspector = server.Connect(v1::ROLE_INSPECTOR);
  Watch watch(inspector);
  watch.SkipSnapshot();
  {
    Watch gone(inspector);
    gone.SkipSnapshot();
    CHECK(server.watches().size() == 2);
  }
  CHECK(Eventually([&] { return server.watches().size() == 1; }));
  server.watches().EndAll(absl::UnavailableError("the daemon stops"));
  CHECK(watch.End() == "UNAVAILABLE");
}

TEST_CASE("A process watches in so many streams, and no unknown pool") {
  TestServer server;
  Connection inspector = server.Connect(v1::ROLE_INSPECTOR);
  v1::WatchPrefixesRequest unknown;
  unknown.set_pool("other");
  CHECK(Watch(inspector, unknown).End() == "NOT_FOUND");
  std::vector<std::unique_ptr<Watch>> watches;
  for (size_t i = 0; i < server::kMaxProcessWatches; ++i) {
    watches.push_back(std::make_unique<Watch>(inspector));
    watches.back()->SkipSnapshot();
  }
  CHECK(Watch(inspector).End() == "RESOURCE_EXHAUSTED LIMIT");
  watches.pop_back();
  CHECK(Eventually([&] { return server.watches().size() == server::kMaxProcessWatches - 1; }));
  Watch(inspector).SkipSnapshot();
}

}  // namespace
}  // namespace kvpool::test
