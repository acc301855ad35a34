// Well-formed nonsense on an operator's socket: what may do much is asked for it. To replay a
// failure, set KVPOOL_TEST_SEED to the seed that it prints.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include <google/protobuf/descriptor.h>

#include "core/layout/pool_layout.h"
#include "kvpool/v1/admin.pb.h"
#include "proto/convert/layout_convert.h"
#include "tests/integration/hostile/generic_call.h"
#include "tests/integration/hostile/random_calls.h"
#include "tests/integration/hostile/random_message.h"
#include "tests/integration/hostile/scene.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool::test {
namespace {

// Whether a pool by `message` would be made, and take more than a test may.
bool IsTooMuch(const v1::PoolSpec& message) {
  constexpr uint64_t kMaxBytes = 32 << 20;
  constexpr uint32_t kMaxBlocks = 1 << 16;
  // By a fraction of the machine's memory.
  if (message.memory_utilization() > 0) return true;
  const auto spec = SpecFromProto(message);
  if (!spec.ok()) return false;
  const auto layout = PlanPool(*spec);
  return layout.ok() && (layout->num_blocks > kMaxBlocks ||
                         layout->shard_bytes > kMaxBytes / layout->num_shards());
}

v1::PoolSpec SmallSpec() {
  v1::PoolSpec spec;
  spec.set_name("made");
  spec.set_num_layers(2);
  spec.set_num_kv_heads(2);
  spec.set_head_dim(16);
  spec.set_dtype("bf16");
  spec.set_num_blocks(4);
  return spec;
}

// A small spec in which a field or two are at random.
v1::PoolSpec NearlyRight(Random& random) {
  const std::vector<std::string> words{"made", "p",     "host",     "cuda:0", "raw",
                                       "fp8",  "nvfp4", "leaf_lru", "uid-1"};
  v1::PoolSpec spec = SmallSpec();
  v1::PoolSpec other;
  FillAtRandom(other, words, random);
  const google::protobuf::Descriptor& fields = *v1::PoolSpec::descriptor();
  for (uint32_t i = 1 + random.Below(2); i > 0; --i) {
    const auto field = random.Below(static_cast<uint32_t>(fields.field_count()));
    spec.GetReflection()->SwapFields(&spec, &other, {fields.field(static_cast<int>(field))});
  }
  return spec;
}

TEST_CASE("A pool whose spec has a field or two at random is made or refused, and can be deleted") {
  const uint64_t seed = Seed();
  CAPTURE(seed);
  Random random(seed);
  Scene scene;
  std::optional<GenericCaller> caller(scene.node().daemon().operator_socket());
  uint32_t made_count = 0;
  std::map<std::string, uint32_t> refused_counts;
  for (int i = 0; i < 400; ++i) {
    v1::CreatePoolRequest request;
    *request.mutable_spec() = NearlyRight(random);
    if (IsTooMuch(request.spec())) continue;
    CAPTURE(i, request.spec().ShortDebugString());
    const absl::Status status = caller->Call("/kvpool.v1.AdminService/CreatePool",
                                             {request.SerializeAsString()}, RawClient::kPatience);
    if (status.ok()) {
      ++made_count;
      // Without a name it has one by default.
      const auto pools = scene.node().eyes().ListPools();
      REQUIRE(Said(pools) == "OK");
      REQUIRE(pools->size() == 3);
      for (const v1::PoolStatus& pool : *pools) {
        const std::string& name = pool.layout().spec().name();
        if (name == "p" || name == "closed") continue;
        REQUIRE(Said(scene.node().eyes().DeletePool(name)) == "OK");
      }
      continue;
    }
    ++refused_counts[absl::StatusCodeToString(status.code())];
    // Nothing of it is the daemon's own fault, or is left.
    CHECK(status.code() != absl::StatusCode::kInternal);
    CHECK(status.code() != absl::StatusCode::kUnknown);
    if (i % 50 == 0) scene.Check();
  }
  caller.reset();
  CHECK(made_count > 20);
  CHECK(refused_counts["INVALID_ARGUMENT"] > 20);
  CHECK(Value(scene.node().eyes().ListPools()).size() == 2);
  scene.CheckLast();
}

// Without Drain, which may end the daemon as it should; without OpenSession, whose sessions are
// this process's and would stay; without CreatePool, which may take much memory (see above).
TEST_CASE("Random messages to every method of an operator's socket end nobody's session or pool") {
  const uint64_t seed = Seed();
  CAPTURE(seed);
  Scene scene;
  const auto said = CallAtRandom({.address = scene.node().daemon().operator_socket(),
                                  .seed = seed,
                                  .count = UnlessSanitized(800, 300),
                                  .words = {"p", "closed", "0", "ffffffff", std::string(32, 'f')},
                                  .without = {"Drain", "OpenSession", "CreatePool"}});
  CAPTURE(said.status().ToString());
  REQUIRE(said.ok());
  CAPTURE(*said);
  CHECK(said->find("OK=") != std::string::npos);
  CHECK(said->find("NOT_FOUND=") != std::string::npos);
  REQUIRE(scene.node().BecomeWaiting(0));
  CHECK(Value(scene.node().eyes().ListPools()).size() == 2);
  scene.Check();
  scene.CheckLast();
}

}  // namespace
}  // namespace kvpool::test
