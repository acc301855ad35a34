#include "core/layout/spec_check.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/layout/pool_layout.h"
#include "tests/support/catch.h"
#include "tests/unit/layout/specs.h"
#include "tests/unit/layout/wrong_specs.h"

namespace kvpool {
namespace {

using test::BaseSpec;
using test::CheckAllRefused;
using test::CheckRefused;

const std::string kTooLong(64, 'a');

TEST_CASE("A pool's name is 1-63 characters of a-z, 0-9 and '-'") {
  for (const char* name : {"a", "0", "-", "llama-3-8b", "0-9"}) {
    CAPTURE(name);
    CHECK(CheckPoolName(name).ok());
  }
  CHECK(CheckPoolName(std::string(63, 'z')).ok());
  for (const std::string& name :
       std::vector<std::string>{"", std::string(64, 'a'), std::string(300, 'a'), "A", "a_b", "a b",
                                "../x", "/a/b", "a\n", std::string("a\0b", 3), "\x1b[2J", "ä"}) {
    CAPTURE(name);
    CHECK(absl::IsInvalidArgument(CheckPoolName(name)));
  }
  CheckAllRefused(
      BaseSpec(),
      {
          {"no name", [](PoolSpec& s) { s.name = ""; }, "name is \"\": "},
          {"a path", [](PoolSpec& s) { s.name = "../x"; }, "name is \"../x\": "},
          {"an escape", [](PoolSpec& s) { s.name = "\x1b[2J"; }, "name is \"\\x1b[2J\": "},
      });
}

TEST_CASE("A zero is refused by the name of its field") {
  CheckAllRefused(
      BaseSpec(),
      {
          {"block size", [](PoolSpec& s) { s.block_size = 0; }, "block_size is 0: "},
          {"layers", [](PoolSpec& s) { s.num_layers = 0; }, "num_layers is 0: "},
          {"heads", [](PoolSpec& s) { s.num_kv_heads = 0; }, "num_kv_heads is 0: layer 0 "},
          {"dim", [](PoolSpec& s) { s.head_dim = 0; }, "head_dim is 0: layer 0 "},
          {"dim of layers without an override",
           [](PoolSpec& s) {
             s.head_dim = 0;
             s.layers = {{.first = 0, .last = 10, .head_dim = 64}};
           },
           "head_dim is 0: layer 11 "},
          {"blocks", [](PoolSpec& s) { s.num_blocks = 0; }, "num_blocks is 0: "},
          {"bytes",
           [](PoolSpec& s) {
             s.num_blocks.reset();
             s.memory_bytes = 0;
           },
           "memory_bytes is 0: "},
      });
}

TEST_CASE("Counts over their limits are refused by the name of their field") {
  CheckAllRefused(
      BaseSpec(),
      {
          {"layers", [](PoolSpec& s) { s.num_layers = 1025; }, "num_layers is 1025: "},
          {"blocks", [](PoolSpec& s) { s.num_blocks = 1U << 31; }, "num_blocks is 2147483648: "},
          {"devices", [](PoolSpec& s) { s.devices.assign(65, "host"); },
           "devices is a list of 65: "},
          {"tenants",
           [](PoolSpec& s) {
             for (int i = 0; i < 1025; ++i) s.tenants.push_back("t" + std::to_string(i));
           },
           "tenants is a list of 1025: "},
      });
  PoolSpec spec = BaseSpec();
  spec.num_layers = 1024;
  spec.devices.assign(64, "host");
  CHECK(PlanPool(spec).ok());
}

TEST_CASE("Exactly one size is given") {
  CheckAllRefused(BaseSpec(),
                  {
                      {"none", [](PoolSpec& s) { s.num_blocks.reset(); },
                       "no size is given: give one of num_blocks, "},
                      {"two", [](PoolSpec& s) { s.memory_bytes = 1 << 20; },
                       "num_blocks and memory_bytes are given: give one of "},
                      {"three",
                       [](PoolSpec& s) {
                         s.memory_bytes = 1 << 20;
                         s.memory_utilization = 0.5;
                       },
                       "num_blocks and memory_bytes and memory_utilization are given: "},
                      {"a reserve without utilization", [](PoolSpec& s) { s.reserve_bytes = 7; },
                       "reserve_bytes is 7: "},
                  });
}

TEST_CASE("Utilization is over 0 and at most 1, and on CUDA only") {
  PoolSpec spec = BaseSpec();
  spec.num_blocks.reset();
  spec.devices = {"cuda:0"};
  for (const auto& [value, shown] : std::vector<std::pair<double, std::string>>{
           {0.0, "0"},
           {-0.5, "-0.5"},
           {1.0000001, "1"},
           {2.0, "2"},
           {std::numeric_limits<double>::infinity(), "inf"},
           {-std::numeric_limits<double>::infinity(), "-inf"},
           {std::nan(""), "nan"}}) {
    CAPTURE(value);
    spec.memory_utilization = value;
    CheckRefused(spec, "memory_utilization is " + shown + ": it is above 0 and at most 1");
  }
  spec.memory_utilization = 0.5;
  spec.devices = {"host"};
  CheckRefused(spec, "memory_utilization is 0.5: it is for CUDA only");
  spec.devices.clear();
  CheckRefused(spec, "memory_utilization is 0.5: it is for CUDA only");
}

TEST_CASE("Devices are host, or CUDA by number or UUID") {
  const std::string uuid = "8f3c1a2b-0123-4567-89ab-cdef01234567";
  for (const std::string& device : std::vector<std::string>{
           "host", "cuda:0", "cuda:15", "cuda:GPU-" + uuid, "cuda:MIG-" + uuid}) {
    CAPTURE(device);
    PoolSpec spec = BaseSpec();
    spec.devices = {device};
    CHECK(PlanPool(spec).ok());
  }
  for (const std::string& device : std::vector<std::string>{
           "", "Host", "host ", "host:0", "cpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:01",
           "cuda:1000", "CUDA:0", "cuda:" + uuid, "cuda:GPU-", "cuda:GPU-" + uuid + "0",
           "cuda:GPU-8f3c1a2b00123-4567-89ab-cdef01234567",
           "cuda:GPU-8F3C1A2B-0123-4567-89AB-CDEF01234567",
           "cuda:GPU-8f3c1a2g-0123-4567-89ab-cdef01234567"}) {
    CAPTURE(device);
    PoolSpec spec = BaseSpec();
    spec.devices = {device};
    CheckRefused(spec, "devices[0] is \"" + device + "\": ");
  }
}

TEST_CASE("A pool's devices are of one kind, and only host may be listed twice") {
  PoolSpec spec = BaseSpec();
  spec.devices = {"host", "host", "host"};
  CHECK(PlanPool(spec).ok());
  spec.devices = {"cuda:0", "cuda:1"};
  CHECK(PlanPool(spec).ok());
  spec.devices = {"cuda:0", "cuda:1", "cuda:0"};
  CheckRefused(spec, "devices[2] is \"cuda:0\": only \"host\" may be listed twice");
  spec.devices = {"cuda:0", "host"};
  CheckRefused(spec, "devices[1] is \"host\": a pool is on one kind of device");
}

TEST_CASE("Tenants are 1-63 visible characters, each listed once") {
  PoolSpec spec = BaseSpec();
  spec.tenants = {"uid-1000", "team/a.b_c:D", std::string(63, 'x')};
  CHECK(PlanPool(spec).ok());
  CheckAllRefused(
      BaseSpec(),
      {
          {"empty",
           [](PoolSpec& s) {
             s.tenants = {"a", ""};
           },
           "tenants[1] is \"\": "},
          {"long", [](PoolSpec& s) { s.tenants = {kTooLong}; }, "tenants[0] is \"aaaa"},
          {"a space", [](PoolSpec& s) { s.tenants = {"a b"}; }, "tenants[0] is \"a b\": "},
          {"a control", [](PoolSpec& s) { s.tenants = {"a\x7f"}; }, "tenants[0] is \"a\\x7f\": "},
          {"twice",
           [](PoolSpec& s) {
             s.tenants = {"a", "b", "a"};
           },
           "tenants[2] is \"a\": it is listed before"},
      });
}

TEST_CASE("An eviction policy that the daemon does not list is refused") {
  CheckAllRefused(BaseSpec(), {
                                  {"a policy", [](PoolSpec& s) { s.eviction_policy = "lru"; },
                                   "eviction_policy is \"lru\": "},
                              });
  PoolSpec spec = BaseSpec();
  for (const char* policy : {"learned", "leaf_lru"}) {
    spec.eviction_policy = policy;
    CHECK(CheckSpec(spec)->eviction_policy == policy);
  }
}

TEST_CASE("Checking fills in the defaults, by their canonical names") {
  PoolSpec spec = BaseSpec();
  spec.layers = {{.first = 0, .last = 0, .dtype = "bf16k4v"}};
  const auto filled = CheckSpec(spec);
  REQUIRE(filled.ok());
  CHECK(filled->block_size == 16U);
  CHECK(filled->dtype == "fp8");
  CHECK(filled->devices == std::vector<std::string>{"host"});
  CHECK(filled->fill_on_alloc == Fill::kAcrossTenants);
  CHECK(filled->eviction_policy == "learned");
  CHECK(filled->layers[0].dtype == "bf16k_turbo4v");
  CHECK(filled->num_blocks == 4U);
  CHECK_FALSE(IsCuda(*filled));

  spec.fill_on_alloc = Fill::kPoison;
  CHECK(CheckSpec(spec)->fill_on_alloc == Fill::kPoison);
  CHECK(CheckSpec(*filled) == filled);
}

}  // namespace
}  // namespace kvpool
