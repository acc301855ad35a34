#include "server/pool_registry.h"

#include <chrono>

#include "absl/strings/match.h"

#include "core/error.h"
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

PoolSpec MakeSpec(const std::string& name) {
  PoolSpec spec;
  spec.name = name;
  spec.num_layers = 1;
  spec.num_kv_heads = 1;
  spec.head_dim = 64;
  spec.dtype = "fp8";
  spec.num_blocks = 4;
  return spec;
}

struct Fixture {
  explicit Fixture(bool poison = false, uint64_t total_bytes = uint64_t{1} << 30)
      : device(total_bytes),
        registry({.limits = LedgerLimits{},
                  .trace = false,
                  .poison = poison,
                  .clock = [] { return std::chrono::steady_clock::now(); }},
                 devices, observer) {}

  test::FakeDevice device;
  DeviceTable devices{device};
  NoObserver observer;
  PoolRegistry registry;
};

OpenSessionCall OpenCall(const SessionId& id) {
  return {.id = id,
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

TEST_CASE("A pool is found and listed by name from when it is made until it is deleted") {
  Fixture f;
  CHECK(absl::IsNotFound(f.registry.Find("b").status()));
  REQUIRE(f.registry.Create(MakeSpec("b")).ok());
  REQUIRE(f.registry.Create(MakeSpec("a")).ok());
  const auto pools = f.registry.List();
  REQUIRE(pools.size() == 2);
  CHECK(pools[0].pool->layout().spec.name == "a");
  CHECK(f.registry.Find("b")->pool == pools[1].pool);
  CHECK(f.registry.Delete("b").ok());
  CHECK(absl::IsNotFound(f.registry.Find("b").status()));
  CHECK(absl::IsNotFound(f.registry.Delete("b")));
}

TEST_CASE("A second pool of a name is refused, and a failed one leaves its name free") {
  Fixture f;
  f.device.FailNextAllocation(absl::ResourceExhaustedError("no room"));
  CHECK(absl::IsResourceExhausted(f.registry.Create(MakeSpec("p")).status()));
  CHECK(f.registry.List().empty());
  REQUIRE(f.registry.Create(MakeSpec("p")).ok());
  CHECK(absl::IsAlreadyExists(f.registry.Create(MakeSpec("p")).status()));
}

TEST_CASE("A wrong spec is refused with the field, a device that is not here with the device") {
  Fixture f;
  PoolSpec spec = MakeSpec("p");
  spec.num_layers = 0;
  CHECK(absl::IsInvalidArgument(f.registry.Create(spec).status()));
  CHECK(absl::IsInvalidArgument(f.registry.Plan(spec).status()));

  spec = MakeSpec("p");
  spec.devices = {"cuda:0"};
  const absl::Status status = f.registry.Create(spec).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(GetErrorDetail(status).reason == Reason::kDevice);
  CHECK(absl::StrContains(status.message(), "devices[0]: 'cuda:0'"));
  CHECK(f.device.allocated_bytes() == 0);
}

TEST_CASE("A pool whose shards do not all fit takes nothing and says what it needs") {
  Fixture f(/*poison=*/false, /*total_bytes=*/100'000);
  PoolSpec spec = MakeSpec("p");
  spec.num_blocks = 30;  // 30 x 2 x 1024 bytes: one shard would fit.
  spec.devices = {"host", "host"};
  const absl::Status status = f.registry.Create(spec).status();
  CHECK(absl::IsResourceExhausted(status));
  CHECK(absl::StrContains(status.message(), "122880"));
  CHECK(absl::StrContains(status.message(), "100000"));
  CHECK(f.device.allocated_bytes() == 0);
}

TEST_CASE("Poison is the default fill of every pool where it is on, and an explicit one stays") {
  Fixture f(/*poison=*/true);
  CHECK(f.registry.Plan(MakeSpec("p"))->spec.fill_on_alloc == Fill::kPoison);
  PoolSpec spec = MakeSpec("p");
  spec.fill_on_alloc = Fill::kZero;
  CHECK(f.registry.Plan(spec)->spec.fill_on_alloc == Fill::kZero);
  const Fixture without;
  CHECK(without.registry.Plan(MakeSpec("p"))->spec.fill_on_alloc == Fill::kAcrossTenants);
}

TEST_CASE("A region's id leads to its pool and shard and is never used again") {
  Fixture f;
  PoolSpec spec = MakeSpec("p");
  spec.devices = {"host", "host"};
  const auto first = f.registry.Create(spec);
  REQUIRE(first.ok());
  REQUIRE(first->region_ids.size() == 2);
  const auto region = f.registry.FindRegion(first->region_ids[1]);
  REQUIRE(region.ok());
  CHECK(region->pool == first->pool);
  CHECK(region->shard == 1);
  CHECK(absl::IsNotFound(f.registry.FindRegion(0).status()));

  const std::vector<uint64_t> old_ids = first->region_ids;
  REQUIRE(f.registry.Delete("p").ok());
  const auto second = f.registry.Create(spec);
  REQUIRE(second.ok());
  for (const uint64_t id : second->region_ids) {
    CHECK(std::ranges::find(old_ids, id) == old_ids.end());
  }
}

TEST_CASE("A pool with a session is in use, and is deleted once the session is closed") {
  Fixture f;
  REQUIRE(f.registry.Create(MakeSpec("p")).ok());
  const SessionId session{.bytes = {1}};
  REQUIRE(f.registry.Find("p")->pool->OpenSession(OpenCall(session)).ok());
  const absl::Status status = f.registry.Delete("p");
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(GetErrorDetail(status).reason == Reason::kInUse);
  CHECK(f.registry.Find("p").ok());

  REQUIRE(f.registry.Find("p")->pool->CloseSession({.session = session, .tenant = "t"}).ok());
  CHECK(f.registry.Delete("p").ok());
  CHECK(f.device.allocated_bytes() == 0);
}

TEST_CASE("A deleted pool that a call still has is kept going until the call lets it go") {
  Fixture f;
  std::shared_ptr<Pool> held = f.registry.Create(MakeSpec("p"))->pool;
  REQUIRE(f.registry.Delete("p").ok());
  CHECK(f.device.allocated_bytes() > 0);
  // A session that such a call opens ends with its process, as any other.
  const SessionId session{.bytes = {1}};
  REQUIRE(held->OpenSession(OpenCall(session)).ok());
  REQUIRE(held->Attach({.session = session, .tenant = "t"}, ProcessId{1}).ok());
  f.registry.ProcessGone(ProcessId{1});
  CHECK(held->counts().sessions == 0);

  CHECK(f.registry.Advance().has_value());
  held.reset();
  f.registry.Advance();
  CHECK(f.device.allocated_bytes() == 0);
  CHECK_FALSE(f.registry.Advance().has_value());
}

}  // namespace
}  // namespace kvpool::server
