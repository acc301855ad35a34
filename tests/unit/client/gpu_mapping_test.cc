// A mapping of memory on a GPU, and what of a mapping is the same on both.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>

#include "absl/functional/function_ref.h"

#include "client/mapping.h"
#include "tests/support/catch.h"
#include "tests/support/dies_in_child.h"
#include "tests/support/fake_gpus.h"

namespace kvpool::client {
namespace {

using test::FakeGpuMemory;
using test::FakeGpus;

PoolSpec Spec(MemoryOrder order) {
  PoolSpec spec;
  spec.name = "p";
  spec.num_layers = 3;
  spec.num_kv_heads = 2;
  spec.head_dim = 64;
  spec.v_head_dim = 128;
  spec.dtype = "bf16";
  spec.num_blocks = 5;
  spec.devices = {"cuda:0"};
  spec.memory_order = order;
  return spec;
}

std::shared_ptr<const PoolLayout> Plan(const PoolSpec& spec) {
  return std::make_shared<const PoolLayout>(PlanPool(spec).value());
}

absl::StatusOr<Mapping> Make(const std::shared_ptr<const PoolLayout>& layout, uint64_t size_bytes,
                             int ordinal = 0) {
  return Mapping::CreateOnGpu(layout,
                              std::make_shared<FakeGpuMemory>(FakeGpus::kBase, size_bytes, ordinal),
                              Mapping::Access::kReadWrite, 1);
}

uint64_t Address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

bool Aborts(absl::FunctionRef<void()> work) { return test::DiesInChild(work, SIGABRT); }

TEST_CASE("A mapping on a GPU has every side where the layout says, in both orders") {
  const MemoryOrder order = GENERATE(MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor);
  const auto layout = Plan(Spec(order));
  const auto mapping = Make(layout, layout->shard_bytes, 3);
  REQUIRE(mapping.ok());
  CHECK(mapping->is_on_gpu());
  CHECK(mapping->device_ordinal() == 3);
  CHECK(mapping->shard() == 1);
  for (uint32_t layer = 0; layer < 3; ++layer) {
    CAPTURE(layer);
    const LayerLayout& sides = layout->layers[layer];
    CHECK(Address(mapping->k_ptr(layer)) == FakeGpus::kBase + sides.k.offset_bytes);
    CHECK(Address(mapping->v_ptr(layer)) == FakeGpus::kBase + sides.v->offset_bytes);
  }
  CHECK(mapping->k_ptr(1) != mapping->k_ptr(0));
}

TEST_CASE("Where V aliases K on a GPU, both are at the same address") {
  PoolSpec spec = Spec(MemoryOrder::kLayerMajor);
  spec.v_head_dim = 0;
  spec.v_mode = VMode::kAliasesK;
  const auto layout = Plan(spec);
  const auto mapping = Make(layout, layout->shard_bytes);
  REQUIRE(mapping.ok());
  CHECK(mapping->v_ptr(2) == mapping->k_ptr(2));
  CHECK(mapping->v_tensor(2)->data == mapping->k_ptr(2));
}

TEST_CASE("Memory on a GPU that the layout passes the end of is refused") {
  const auto layout = Plan(Spec(MemoryOrder::kBlockMajor));
  const LayerLayout& last = layout->layers.back();
  const uint64_t needed = last.v->offset_bytes + 4 * last.v->stride_bytes + last.v->block_bytes;
  CHECK(Make(layout, needed).ok());
  CHECK(absl::IsFailedPrecondition(Make(layout, needed - 1).status()));
}

TEST_CASE("The bytes of a GPU, and sides that are not there, end the process") {
  PoolSpec spec = Spec(MemoryOrder::kLayerMajor);
  spec.v_head_dim = 0;
  spec.v_mode = VMode::kNone;
  const auto layout = Plan(spec);
  auto mapping = Make(layout, layout->shard_bytes);
  REQUIRE(mapping.ok());
  CHECK(Aborts([&] { (void)mapping->k(0, BlockId{0}); }));
  CHECK(Aborts([&] { (void)mapping->mutable_k(0, BlockId{0}); }));
  CHECK(Aborts([&] { (void)mapping->bytes(); }));
  CHECK(Aborts([&] { (void)mapping->mutable_bytes(); }));
  CHECK(Aborts([&] { (void)mapping->k_ptr(3); }));
  CHECK(Aborts([&] { (void)mapping->v_ptr(0); }));
  CHECK(Aborts([&] { (void)mapping->v_tensor(0); }));
}

TEST_CASE("A forked child that ends its copy of a mapping leaves the GPU's memory open") {
  const auto layout = Plan(Spec(MemoryOrder::kLayerMajor));
  auto memory = std::make_shared<const FakeGpuMemory>(FakeGpus::kBase, layout->shard_bytes, 0);
  const std::weak_ptr<const FakeGpuMemory> watch = memory;
  auto mapping = std::make_unique<Mapping>(
      Mapping::CreateOnGpu(layout, std::move(memory), Mapping::Access::kReadWrite, 0).value());
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    mapping.reset();
    _exit(watch.expired() ? 1 : 0);
  }
  int state = 0;
  REQUIRE(waitpid(child, &state, 0) == child);
  CHECK(WIFEXITED(state));
  CHECK(WEXITSTATUS(state) == 0);
  CHECK_FALSE(watch.expired());
  mapping.reset();
  CHECK(watch.expired());
}

}  // namespace
}  // namespace kvpool::client
