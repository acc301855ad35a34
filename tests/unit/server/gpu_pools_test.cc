// Pools on GPUs, which are the fake driver's.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "core/device/gpus.h"
#include "core/error.h"
#include "server/device_table.h"
#include "server/pool_registry.h"
#include "tests/fakecuda/fixture.h"
#include "tests/gpu/waiting_device.h"
#include "tests/support/catch.h"
#include "tests/support/fake_device.h"

namespace kvpool::server {
namespace {

class NoObserver final : public PoolObserver {
 public:
  void OnSessionEnded(const SessionId& /*session*/, SessionEnd /*reason*/) override {}
  void OnSessionForgotten(const SessionId& /*session*/) override {}
  void OnMemberGone(const SessionId& /*session*/) override {}
};

PoolSpec MakeSpec(std::vector<std::string> devices) {
  PoolSpec spec;
  spec.name = "p";
  spec.num_layers = 2;
  spec.num_kv_heads = 1;
  spec.head_dim = 64;
  spec.dtype = "fp8";
  spec.num_blocks = 4;
  spec.devices = std::move(devices);
  return spec;
}

// A machine with GPUs. The test says of the driver what it needs before the first pool.
struct Machine {
  fakecuda::FreshDriver fresh;
  test::FakeDevice host;
  std::vector<std::string> tested;  // UUIDs, in order.
  absl::Status test_result;
  TimePoint now{std::chrono::hours(1)};
  DeviceTable devices{host, MakeGpus(FAKECUDA_LIBRARY),
                      [this](Device& gpu) {
                        tested.push_back(gpu.info().uuid);
                        return test_result;
                      },
                      [this] { return now; }};
  NoObserver observer;
  PoolRegistry registry{
      {.limits = LedgerLimits{}, .clock = [this] { return now; }}, devices, observer};
};

constexpr SessionId kSession{.bytes = {1}};

OpenSessionCall OpenCall() {
  return {.id = kSession,
          .tenant = "t",
          .client_name = "",
          .model_id = "",
          .pid = 1,
          .uid = 0,
          .process = ProcessId{1},
          .ttl = std::chrono::seconds(10),
          .guaranteed_blocks = 0,
          .join = std::nullopt};
}

absl::Status AllocAll(Pool& pool) {
  const AllocCall call{.caller = {.session = kSession, .tenant = "t"},
                       .count = pool.layout().num_blocks,
                       .fill = Fill::kPoison};
  test::Ending ending;
  pool.Alloc(call, [done = ending.Take()](const absl::StatusOr<AllocAnswer>& answer) mutable {
    done(answer.status());
  });
  return ending.Wait();
}

TEST_CASE("a pool lies on the GPUs that its spec lists, which its layout names by UUID") {
  Machine machine;
  fakecuda_set("FAKECUDA_DEVICES", "2");
  const auto served = machine.registry.Create(MakeSpec({"cuda:1", "cuda:0"}));
  INFO(served.status());
  REQUIRE(served.ok());
  const Memory& memory = served->pool->memory();
  REQUIRE(memory.regions().size() == 2);
  for (uint32_t shard = 0; shard < 2; ++shard) {
    CHECK(memory.device(shard).info().kind == DeviceKind::kCuda);
    CHECK(served->pool->layout().spec.devices[shard] == "cuda:" + memory.device(shard).info().uuid);
    CHECK(memory.regions()[shard]->ipc_handle().size() == 64);
    CHECK(memory.regions()[shard]->shared_fd() == -1);
  }
  CHECK(&memory.device(0) != &memory.device(1));
  CHECK(served->pool->layout().shard_bytes % (2U << 20) == 0);
  CHECK(machine.host.allocated_bytes() == 0);
}

TEST_CASE("a GPU is tested once, when the first pool asks for it") {
  Machine machine;
  REQUIRE(machine.registry.Plan(MakeSpec({"host"})).ok());
  CHECK(machine.tested.empty());
  REQUIRE(machine.registry.Create(MakeSpec({"cuda:0"})).ok());
  REQUIRE(machine.registry.Plan(MakeSpec({"cuda:0"})).ok());
  CHECK(machine.tested.size() == 1);
  CHECK(machine.devices.warnings().empty());
}

TEST_CASE("a GPU that fails its test is warned of, and serves") {
  Machine machine;
  machine.test_result = absl::FailedPreconditionError("workers cannot map it");
  CHECK(machine.registry.Create(MakeSpec({"cuda:0"})).ok());
  CHECK(machine.devices.warnings() == std::vector<std::string>{"workers cannot map it"});
}

TEST_CASE("a GPU that failed its test is tested again when a pool asks for it later") {
  Machine machine;
  machine.test_result = absl::FailedPreconditionError("not yet");
  REQUIRE(machine.registry.Plan(MakeSpec({"cuda:0"})).ok());
  machine.test_result = absl::OkStatus();
  machine.now += DeviceTable::kTestInterval - std::chrono::nanoseconds(1);
  REQUIRE(machine.registry.Plan(MakeSpec({"cuda:0"})).ok());
  CHECK(machine.tested.size() == 1);
  CHECK(machine.devices.warnings() == std::vector<std::string>{"not yet"});
  machine.now += std::chrono::nanoseconds(1);
  REQUIRE(machine.registry.Plan(MakeSpec({"cuda:0"})).ok());
  CHECK(machine.tested.size() == 2);
  CHECK(machine.devices.warnings().empty());
  machine.now += DeviceTable::kTestInterval;
  REQUIRE(machine.registry.Plan(MakeSpec({"cuda:0"})).ok());
  CHECK(machine.tested.size() == 2);
}

TEST_CASE("GPUs are listed beside the host once a pool asked for one") {
  Machine machine;
  fakecuda_set("FAKECUDA_DEVICES", "3");
  CHECK(machine.devices.List().size() == 1);
  REQUIRE(machine.registry.Plan(MakeSpec({"host"})).ok());
  CHECK(fakecuda_calls("cuInit") == 0);
  REQUIRE(machine.registry.Plan(MakeSpec({"cuda:1"})).ok());
  const std::vector<DeviceInfo> devices = machine.devices.List();
  REQUIRE(devices.size() == 4);
  CHECK(devices[0].kind == DeviceKind::kHost);
  CHECK(absl::StartsWith(devices[3].uuid, "GPU-"));
}

TEST_CASE("a GPU listed under two names is refused, naming both places") {
  Machine machine;
  const auto first = machine.registry.Plan(MakeSpec({"cuda:0"}));
  REQUIRE(first.ok());
  const absl::Status status =
      machine.registry.Create(MakeSpec({"cuda:0", first->spec.devices[0]})).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(absl::StrContains(status.message(), "devices[1]"));
  CHECK(absl::StrContains(status.message(), "devices[0]"));
}

TEST_CASE("a GPU that is not there is refused, naming the entry and those there are") {
  Machine machine;
  const absl::Status status = machine.registry.Create(MakeSpec({"cuda:0", "cuda:7"})).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(GetErrorDetail(status).reason == Reason::kDevice);
  CHECK(absl::StrContains(status.message(), "devices[1]: 'cuda:7'"));
  CHECK(absl::StrContains(status.message(), "GPU-"));
}

TEST_CASE("a pool too large for a GPU takes nothing, and says which lacks how much") {
  Machine machine;
  const auto uuid = machine.registry.Plan(MakeSpec({"cuda:0"}))->spec.devices[0].substr(5);
  PoolSpec spec = MakeSpec({"cuda:0"});
  spec.num_blocks = 1U << 30;
  const absl::Status status = machine.registry.Create(spec).status();
  CHECK(absl::IsResourceExhausted(status));
  CHECK(absl::StrContains(status.message(), uuid));
  CHECK(absl::StrContains(status.message(), "are available of"));
  CHECK(machine.registry.List().empty());
}

TEST_CASE("a size by utilization is of the GPU's memory") {
  Machine machine;
  PoolSpec spec = MakeSpec({"cuda:0"});
  spec.num_blocks.reset();
  spec.memory_utilization = 0.5;
  const auto half = machine.registry.Plan(spec);
  REQUIRE(half.ok());
  const auto memory = machine.devices.Find(half->spec).value()[0]->QueryMemory();
  REQUIRE(memory.ok());
  CHECK(half->shard_bytes <= memory->total_bytes / 2);
  CHECK(half->shard_bytes > memory->total_bytes / 4);
}

TEST_CASE("a utilization that leaves no room says of which GPU, and what there is of it") {
  Machine machine;
  PoolSpec spec = MakeSpec({"cuda:0"});
  spec.num_blocks.reset();
  spec.memory_utilization = 0.5;
  spec.reserve_bytes = 1U << 30;
  const absl::Status status = machine.registry.Plan(spec).status();
  CHECK(absl::IsResourceExhausted(status));
  for (const char* part : {"memory_utilization is 0.5 of 268435456 bytes of cuda:GPU-", "are free",
                           "1073741824 are kept in reserve", "no block fits in 0 bytes"}) {
    CAPTURE(part, status);
    CHECK(absl::StrContains(status.message(), part));
  }
}

TEST_CASE("blocks of a process that is gone are its own for a moment longer on a GPU") {
  Machine machine;
  const auto served = machine.registry.Create(MakeSpec({"cuda:0"}));
  REQUIRE(served.ok());
  Pool& pool = *served->pool;
  REQUIRE(pool.OpenSession(OpenCall()).ok());
  REQUIRE(AllocAll(pool).ok());
  REQUIRE(pool.Attach({.session = kSession, .tenant = "t"}, ProcessId{1}).ok());
  machine.registry.ProcessGone(ProcessId{1});
  machine.registry.Advance();
  CHECK(pool.counts().free_blocks == 0);
  machine.now += std::chrono::milliseconds(49);
  machine.registry.Advance();
  CHECK(pool.counts().free_blocks == 0);
  machine.now += std::chrono::milliseconds(1);
  machine.registry.Advance();
  CHECK(pool.counts().free_blocks == pool.layout().num_blocks);
}

TEST_CASE("a pool whose GPU has failed refuses, and says of what; others go on") {
  Machine machine;
  const auto served = machine.registry.Create(MakeSpec({"cuda:0"}));
  REQUIRE(served.ok());
  PoolSpec other = MakeSpec({"host"});
  other.name = "other";
  const auto on_host = machine.registry.Create(other);
  REQUIRE(on_host.ok());
  Pool& pool = *served->pool;
  REQUIRE(pool.OpenSession(OpenCall()).ok());

  const uint64_t next_call = fakecuda_calls("cuStreamSynchronize") + 1;
  fakecuda_set("FAKECUDA_FAIL", absl::StrCat("cuStreamSynchronize:", next_call, ":700").c_str());
  const absl::Status failed = AllocAll(pool);
  CHECK(GetErrorDetail(failed).reason == Reason::kDeviceFailed);
  CHECK(absl::StrContains(failed.message(), "cuStreamSynchronize"));
  const absl::Status health = pool.memory().health();
  CHECK(absl::StrContains(health.message(), "cuStreamSynchronize"));
  CHECK(AllocAll(pool) == health);
  REQUIRE(machine.devices.warnings().size() == 1);
  CHECK(absl::StrContains(machine.devices.warnings()[0], "a GPU has failed"));
  CHECK(absl::StrContains(machine.devices.warnings()[0], "cuStreamSynchronize"));
  OpenSessionCall second = OpenCall();
  second.id = SessionId{.bytes = {2}};
  CHECK(pool.OpenSession(second).status() == health);
  CHECK(pool.CloseSession({.session = kSession, .tenant = "t"}).ok());
  CHECK(pool.CheckInvariants().ok());

  REQUIRE(on_host->pool->OpenSession(OpenCall()).ok());
  CHECK(AllocAll(*on_host->pool).ok());
}

TEST_CASE("without a driver a pool on a GPU is refused and one on the host is made") {
  test::FakeDevice host;
  DeviceTable devices(host, MakeGpus("/nowhere/libcuda.so.1"));
  NoObserver observer;
  PoolRegistry registry(
      {.limits = LedgerLimits{}, .clock = [] { return std::chrono::steady_clock::now(); }}, devices,
      observer);
  const absl::Status status = registry.Create(MakeSpec({"cuda:0"})).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(absl::StrContains(status.message(), "no CUDA driver"));
  CHECK(devices.List().size() == 1);
  CHECK(registry.Create(MakeSpec({"host"})).ok());
}

}  // namespace
}  // namespace kvpool::server
