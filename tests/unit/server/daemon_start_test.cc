// A daemon in this process, on memory that the test gives and takes.
#include <filesystem>
#include <future>

#include "absl/strings/match.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>

#include "server/daemon.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_device.h"
#include "tests/support/temp_dir.h"

namespace kvpool::server {
namespace {

constexpr uint64_t kMemoryBytes = 1 << 20;

// Its blocks have 2 KiB each.
PoolSpec SpecOf(const std::string& name, uint32_t num_blocks) {
  PoolSpec spec;
  spec.name = name;
  spec.num_layers = 1;
  spec.num_kv_heads = 1;
  spec.head_dim = 64;
  spec.num_blocks = num_blocks;
  return spec;
}

struct Fixture {
  // A pool of a quarter of the memory, which is all taken at first.
  explicit Fixture(Duration memory_wait) : Fixture(memory_wait, kMemoryBytes, {SpecOf("p", 128)}) {}
  // Pools, and so much of the memory taken at first.
  Fixture(Duration memory_wait, uint64_t taken_bytes, std::vector<PoolSpec> pools) {
    auto allocated = memory->Allocate(taken_bytes, "others");
    REQUIRE(allocated.ok());
    others = *std::move(allocated);
    auto started = Daemon::Start({.config = {.pools = std::move(pools),
                                             .listeners = {{.path = socket,
                                                            .role = v1::ROLE_OPERATOR,
                                                            .tenant = "",
                                                            .mode = 0600,
                                                            .group = std::nullopt}},
                                             .private_directory = ""},
                                  .version = "test",
                                  .keepalive = std::chrono::seconds(10),
                                  .memory_wait = memory_wait,
                                  .reclaim_delay = std::chrono::seconds(2),
                                  .drain_deadline = std::chrono::seconds(30),
                                  .trace = false,
                                  .poison = false,
                                  .host = memory});
    INFO(started.status());
    REQUIRE(started.ok());
    daemon = *std::move(started);
    outcome = std::async(std::launch::async, [this] { return daemon->Run(); });
  }

  bool IsServing() const {
    const auto stub = grpc::health::v1::Health::NewStub(
        grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckResponse response;
    const grpc::Status status = stub->Check(&context, {}, &response);
    return status.ok() && response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
  }

  test::TempDir directory;
  std::string socket = directory.File("operator/kvpool.sock");
  std::shared_ptr<test::FakeDevice> memory = std::make_shared<test::FakeDevice>(kMemoryBytes);
  std::unique_ptr<Region> others;
  std::unique_ptr<Daemon> daemon;
  std::future<Daemon::Outcome> outcome;
};

TEST_CASE("A pool that finds no room at the start is made as soon as there is some") {
  Fixture f(std::chrono::hours(1));
  CHECK_FALSE(f.IsServing());
  CHECK(std::filesystem::exists(f.socket));
  CHECK(f.memory->allocated_bytes() == kMemoryBytes);
  f.others.reset();
  CHECK(test::Eventually([&] { return f.IsServing(); }));
  CHECK(f.memory->allocated_bytes() == kMemoryBytes / 4);
  f.daemon->RequestStop();
  const Daemon::Outcome outcome = f.outcome.get();
  CHECK(outcome.status.ok());
  CHECK_FALSE(outcome.has_hung_start);
}

TEST_CASE(
    "A pool that finds no room in time ends the daemon with what it needs and what there is") {
  Fixture f(std::chrono::milliseconds(10));
  const Daemon::Outcome outcome = f.outcome.get();
  CHECK(absl::IsResourceExhausted(outcome.status));
  CHECK(absl::StrContains(outcome.status.message(), "p needs 262144 bytes"));
  CHECK(absl::StrContains(outcome.status.message(), "0 are available of 1048576"));
  CHECK_FALSE(outcome.has_hung_start);
  f.daemon.reset();
  CHECK_FALSE(std::filesystem::exists(f.socket));
}

TEST_CASE("Of pools of which one finds no room in time, none keeps its memory") {
  Fixture f(std::chrono::milliseconds(10), kMemoryBytes / 2, {SpecOf("p", 128), SpecOf("q", 256)});
  const Daemon::Outcome outcome = f.outcome.get();
  CHECK(absl::IsResourceExhausted(outcome.status));
  // The other pool was there: a quarter of the memory is all that is left.
  CHECK(absl::StrContains(outcome.status.message(), "q needs 524288 bytes"));
  CHECK(absl::StrContains(outcome.status.message(), "262144 are available of 1048576"));
  f.daemon.reset();
  CHECK(f.memory->allocated_bytes() == kMemoryBytes / 2);
  CHECK_FALSE(std::filesystem::exists(f.socket));
}

TEST_CASE("A daemon that is told to end while it waits for room ends, and leaves no socket") {
  Fixture f(std::chrono::hours(1));
  f.daemon->RequestStop();
  const Daemon::Outcome outcome = f.outcome.get();
  CHECK(outcome.status.ok());
  CHECK(outcome.has_hung_start);
  CHECK_FALSE(std::filesystem::exists(f.socket));
}

}  // namespace
}  // namespace kvpool::server
