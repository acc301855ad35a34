#include "core/device/cuda/cuda_region.h"

#include <cstring>
#include <limits>
#include <string>

#include "tests/fakecuda/peer.h"
#include "tests/unit/cuda/fixture.h"
#include "tests/unit/cuda/says.h"

namespace kvpool::cuda {
namespace {

IpcHandle HandleOf(const Region& region) {
  IpcHandle handle{};
  REQUIRE(region.ipc_handle().size() == sizeof(handle.bytes));
  std::memcpy(handle.bytes, region.ipc_handle().data(), sizeof(handle.bytes));
  return handle;
}

uint64_t UsedBytes(FakeGpu& gpu) {
  const auto memory = gpu.device().QueryMemory();
  REQUIRE(memory.ok());
  return memory->total_bytes - memory->free_bytes;
}

TEST_CASE("another process that opens a region's handle sees and changes its bytes") {
  FakeGpu gpu;
  const auto region = gpu.Allocate(kRegionPageBytes);
  CHECK(region->shared_fd() == -1);
  fakecuda::Peer worker({"FAKECUDA_DIR=" + gpu.fresh().directory()});
  REQUIRE(worker.Open(HandleOf(*region)) == 0);
  CHECK(worker.Peek(123) == 0);
  REQUIRE(worker.Poke(123, 45) == 0);
  CHECK(gpu.ReadAll(*region)[123] == std::byte{45});
}

TEST_CASE("a region takes whole pages of 2 MiB and gives them back") {
  FakeGpu gpu;
  const uint64_t before = UsedBytes(gpu);
  {
    const auto region = gpu.Allocate(kRegionPageBytes + 1);
    CHECK(region->size_bytes() == kRegionPageBytes + 1);
    CHECK(UsedBytes(gpu) - before == 2 * kRegionPageBytes);
  }
  CHECK(UsedBytes(gpu) == before);
}

TEST_CASE("a region's handle is asked for once") {
  FakeGpu gpu;
  const auto region = gpu.Allocate(1);
  const uint64_t calls = fakecuda_calls("cuIpcGetMemHandle");
  CHECK(region->ipc_handle().size() == 64);
  CHECK(region->ipc_handle().size() == 64);
  CHECK(fakecuda_calls("cuIpcGetMemHandle") == calls);
}

TEST_CASE("a region that a worker has is not its device's again before the worker lets go") {
  FakeGpu gpu;
  const uint64_t before = UsedBytes(gpu);
  auto region = gpu.Allocate(kRegionPageBytes);
  fakecuda::Peer worker({"FAKECUDA_DIR=" + gpu.fresh().directory()});
  REQUIRE(worker.Open(HandleOf(*region)) == 0);
  region.reset();
  CHECK(UsedBytes(gpu) - before == kRegionPageBytes);
  worker.Kill();
  CHECK(UsedBytes(gpu) == before);
}

TEST_CASE("no room is said with what is needed and what there is, and leaves nothing") {
  FakeGpu gpu;
  fakecuda_set("FAKECUDA_MEMORY", std::to_string(8 * kRegionPageBytes).c_str());
  const auto region = gpu.Allocate(3 * kRegionPageBytes);
  const uint64_t before = UsedBytes(gpu);
  const uint64_t size = GENERATE(6 * kRegionPageBytes, uint64_t{1} << 50);
  CheckRefused(gpu.device().Allocate(size, "big").status(), absl::StatusCode::kResourceExhausted,
               Reason::kDevice,
               {"GPU-", "'big'", std::to_string(size).c_str(), "10485760 of 16777216 are free"});
  CHECK(UsedBytes(gpu) == before);
  CHECK(gpu.device().health().ok());
}

TEST_CASE("sizes near the end of 64 bits are refused, not wrapped, on a device too") {
  FakeGpu gpu;
  const uint64_t size = GENERATE(std::numeric_limits<uint64_t>::max(), ~uint64_t{0} << 21);
  CHECK(gpu.device().Allocate(size, "test").status().code() ==
        absl::StatusCode::kResourceExhausted);
}

TEST_CASE("device memory of zero bytes is an invalid argument") {
  FakeGpu gpu;
  CHECK(gpu.device().Allocate(0, "test").status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("a region that cannot be exported is given back") {
  FakeGpu gpu;
  const uint64_t before = UsedBytes(gpu);
  fakecuda_set("FAKECUDA_FAIL", "cuIpcGetMemHandle:0:801");
  CheckRefused(gpu.device().Allocate(1, "test").status(), absl::StatusCode::kInternal,
               Reason::kDevice, {"cuIpcGetMemHandle", "(801)"});
  CHECK(UsedBytes(gpu) == before);
}

}  // namespace
}  // namespace kvpool::cuda
