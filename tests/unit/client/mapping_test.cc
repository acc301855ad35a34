#include "client/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>

#include "client/owned_fd.h"
#include "core/check.h"
#include "tests/support/catch.h"
#include "tests/support/dies_in_child.h"

namespace kvpool::client {
namespace {

PoolSpec MixedSpec(MemoryOrder order) {
  PoolSpec spec;
  spec.name = "p";
  spec.block_size = 4;
  spec.num_layers = 3;
  spec.num_kv_heads = 2;
  spec.head_dim = 8;
  spec.v_head_dim = 16;
  spec.dtype = "turbo4k_turbo3v";
  spec.high_precision_layers = 1;  // Layers 0 and 2 are bf16: sides of four sizes.
  spec.num_blocks = 5;
  spec.memory_order = order;
  return spec;
}

std::shared_ptr<const PoolLayout> Plan(const PoolSpec& spec) {
  return std::make_shared<const PoolLayout>(PlanPool(spec).value());
}

MappedRegion Memory(uint64_t size_bytes, Mapping::Access access) {
  const OwnedFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  KVPOOL_CHECK(ftruncate(fd.get(), static_cast<off_t>(size_bytes)) == 0);
  KVPOOL_CHECK(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
  return MappedRegion::Map(fd.get(), size_bytes, access).value();
}

Mapping Make(const std::shared_ptr<const PoolLayout>& layout,
             Mapping::Access access = Mapping::Access::kReadWrite) {
  return Mapping::Create(layout, Memory(layout->shard_bytes, access), access, 0).value();
}

bool Aborts(absl::FunctionRef<void()> work) { return test::DiesInChild(work, SIGABRT); }

TEST_CASE("A mapping puts every side of every block where the layout says, in both orders") {
  const MemoryOrder order = GENERATE(MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor);
  const auto layout = Plan(MixedSpec(order));
  Mapping mapping = Make(layout);
  const std::byte* const start = mapping.bytes().data();

  for (uint32_t layer = 0; layer < 3; ++layer) {
    for (uint32_t index = 0; index < 5; ++index) {
      CAPTURE(layer, index);
      const BlockId block{index};
      const SideLayout& k = layout->layers[layer].k;
      const SideLayout& v = *layout->layers[layer].v;
      CHECK(mapping.k(layer, block).data() == start + k.offset_bytes + index * k.stride_bytes);
      CHECK(mapping.k(layer, block).size() == k.block_bytes);
      CHECK(mapping.v(layer, block).data() == start + v.offset_bytes + index * v.stride_bytes);
      CHECK(mapping.v(layer, block).size() == v.block_bytes);
      CHECK(mapping.mutable_k(layer, block).data() == mapping.k(layer, block).data());
      CHECK(mapping.mutable_v(layer, block).data() == mapping.v(layer, block).data());
    }
  }
}

TEST_CASE("A mapping of the host's memory gives the same places as pointers and tensors") {
  PoolSpec spec = MixedSpec(MemoryOrder::kLayerMajor);
  const Mapping mapping = Make(Plan(spec));
  CHECK_FALSE(mapping.is_on_gpu());
  CHECK(mapping.device_ordinal() == -1);
  CHECK(mapping.k_ptr(1) == mapping.k(1, BlockId{0}).data());
  CHECK(mapping.v_ptr(2) == mapping.v(2, BlockId{0}).data());
  const auto tensor = mapping.v_tensor(2);
  REQUIRE(tensor.ok());
  CHECK(tensor->data == mapping.v_ptr(2));
  CHECK(tensor->device_type == 1);
  CHECK(tensor->device_id == 0);
}

TEST_CASE("No two sides of a mapping share a byte, in both orders") {
  const MemoryOrder order = GENERATE(MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor);
  const auto layout = Plan(MixedSpec(order));
  Mapping mapping = Make(layout);
  uint64_t side_bytes = 0;
  for (uint32_t layer = 0; layer < 3; ++layer) {
    for (uint32_t block = 0; block < 5; ++block) {
      for (const std::span<std::byte> side :
           {mapping.mutable_k(layer, BlockId{block}), mapping.mutable_v(layer, BlockId{block})}) {
        for (std::byte& byte : side) {
          CHECK(byte == std::byte{0});
          byte = std::byte{1};
        }
        side_bytes += side.size();
      }
    }
  }
  CHECK(side_bytes == 5 * layout->block_bytes);
}

TEST_CASE("Where V aliases K, both are the same bytes") {
  PoolSpec spec = MixedSpec(MemoryOrder::kLayerMajor);
  spec.dtype = "bf16";
  spec.v_head_dim = 0;
  spec.v_mode = VMode::kAliasesK;
  const Mapping mapping = Make(Plan(spec));
  CHECK(mapping.has_v());
  CHECK(mapping.v(1, BlockId{2}).data() == mapping.k(1, BlockId{2}).data());
}

TEST_CASE("A layer, a block or a V that the pool does not have ends the process") {
  PoolSpec spec = MixedSpec(MemoryOrder::kLayerMajor);
  Mapping mapping = Make(Plan(spec));
  CHECK(Aborts([&] { (void)mapping.k(3, BlockId{0}); }));
  CHECK(Aborts([&] { (void)mapping.k(0, BlockId{5}); }));
  CHECK(Aborts([&] { (void)mapping.v(3, BlockId{0}); }));
  CHECK(Aborts([&] { (void)mapping.mutable_v(0, BlockId{0xFFFFFFFF}); }));

  spec.dtype = "bf16";
  spec.v_head_dim = 0;
  spec.v_mode = VMode::kNone;
  const Mapping without_v = Make(Plan(spec));
  CHECK_FALSE(without_v.has_v());
  CHECK(Aborts([&] { (void)without_v.v(0, BlockId{0}); }));
}

TEST_CASE("A read-only mapping gives no mutable bytes, and its memory refuses writes") {
  Mapping mapping = Make(Plan(MixedSpec(MemoryOrder::kLayerMajor)), Mapping::Access::kReadOnly);
  CHECK(mapping.k(0, BlockId{0})[0] == std::byte{0});
  CHECK(Aborts([&] { (void)mapping.mutable_k(0, BlockId{0}); }));
  CHECK(Aborts([&] { (void)mapping.mutable_bytes(); }));
  auto* const bytes = const_cast<std::byte*>(mapping.bytes().data());
  CHECK(
      test::DiesInChild([&] { *const_cast<volatile std::byte*>(bytes) = std::byte{1}; }, SIGSEGV));
}

TEST_CASE("A layout that passes the end of its region is FAILED_PRECONDITION") {
  const auto good = Plan(MixedSpec(MemoryOrder::kLayerMajor));
  PoolLayout layout = *good;
  SideLayout& side = layout.layers[1].k;
  SECTION("by its offset") { side.offset_bytes = layout.shard_bytes - side.block_bytes; }
  SECTION("by an offset beyond the end") { side.offset_bytes = layout.shard_bytes + 1; }
  SECTION("by a block's length") { side.block_bytes = layout.shard_bytes; }
  SECTION("by its stride") { side.stride_bytes = layout.shard_bytes / 4; }
  SECTION("by a stride that overflows") { side.stride_bytes = ~uint64_t{0} / 4 + 1; }
  SECTION("in V") { layout.layers[2].v->offset_bytes = ~uint64_t{0}; }
  SECTION("by one more block") { ++layout.num_blocks; }
  const auto bad = std::make_shared<const PoolLayout>(layout);
  const Mapping::Access access = Mapping::Access::kReadWrite;
  CHECK(absl::IsFailedPrecondition(
      Mapping::Create(bad, Memory(good->shard_bytes, access), access, 0).status()));
}

TEST_CASE("A forked child that ends its copy of a mapping leaves its own memory alone") {
  auto mapping = std::make_unique<Mapping>(Make(Plan(MixedSpec(MemoryOrder::kLayerMajor))));
  void* const place = const_cast<std::byte*>(mapping->bytes().data());
  const size_t size_bytes = mapping->bytes().size();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // The parent's memory is not here, so its place is free, and the child takes it.
    void* own = mmap(place, size_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (own != place) _exit(1);
    mapping.reset();
    *static_cast<volatile char*>(own) = 1;
    _exit(*static_cast<volatile char*>(own) == 1 ? 0 : 2);
  }
  int state = 0;
  REQUIRE(waitpid(child, &state, 0) == child);
  CHECK(WIFEXITED(state));
  CHECK(WEXITSTATUS(state) == 0);
  CHECK(mapping->k(0, BlockId{0})[0] == std::byte{0});
}

}  // namespace
}  // namespace kvpool::client
