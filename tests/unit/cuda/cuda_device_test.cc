#include "core/device/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/device/host_device.h"
#include "core/executor.h"
#include "core/layout/pool_layout.h"
#include "tests/unit/cuda/fixture.h"
#include "tests/unit/cuda/says.h"

namespace kvpool::cuda {
namespace {

constexpr std::array<Extent, 1> kFirstByte{{{.offset_bytes = 0, .size_bytes = 1}}};

TEST_CASE("a GPU says what it is") {
  FakeGpu gpu;
  CHECK(gpu.device().info().kind == DeviceKind::kCuda);
  CHECK(gpu.device().info().uuid == "GPU-10171e25-2c33-3a41-484f-565d646b7279");
  CHECK(gpu.device().info().name == "Fake GPU 0");
  CHECK(gpu.device().health().ok());
  CHECK(gpu.device().kernel_status().ok());
}

TEST_CASE("a GPU's memory is what it has and has left") {
  FakeGpu gpu;
  fakecuda_set("FAKECUDA_MEMORY", std::to_string(10 * kRegionPageBytes).c_str());
  const auto region = gpu.Allocate(3 * kRegionPageBytes);
  const auto memory = gpu.device().QueryMemory();
  REQUIRE(memory.ok());
  CHECK(memory->total_bytes == 10 * kRegionPageBytes);
  CHECK(memory->free_bytes == 7 * kRegionPageBytes);
}

TEST_CASE("a pool sized by utilisation fits what the GPU has left") {
  FakeGpu gpu;
  fakecuda_set("FAKECUDA_MEMORY", std::to_string(20 * kRegionPageBytes).c_str());
  const auto taken = gpu.Allocate(5 * kRegionPageBytes);
  PoolSpec spec;
  spec.name = "test";
  spec.num_layers = 2;
  spec.num_kv_heads = 2;
  spec.head_dim = 64;
  spec.dtype = "bf16";
  spec.devices = {"cuda:0"};
  spec.memory_utilization = 0.9;
  spec.reserve_bytes = kRegionPageBytes;
  const std::array<DeviceMemory, 1> memory{gpu.device().QueryMemory().value()};
  const auto layout = PlanPool(spec, memory);
  REQUIRE(layout.ok());
  // 0.9 of 20 pages, less 5 used, less 1 in reserve.
  CHECK(layout->shard_bytes == 12 * kRegionPageBytes);
  CHECK(gpu.Allocate(layout->shard_bytes)->size_bytes() == layout->shard_bytes);
}

TEST_CASE("new device memory is zero, whatever was there") {
  FakeGpu gpu;
  const auto region = gpu.Allocate(kRegionPageBytes);
  CHECK(gpu.ReadAll(*region) == std::vector<std::byte>(kRegionPageBytes));
}

TEST_CASE("an operation is over when the device is done with it, not before") {
  FakeGpu gpu;
  const auto region = gpu.Allocate(64);
  fakecuda_hold();
  Ending filled;
  gpu.device().Fill(*region, kFirstByte, 7, filled.Take());
  CHECK_FALSE(filled.is_over());
  fakecuda_release();
  CHECK(filled.Wait().ok());
  CHECK(gpu.ReadAll(*region)[0] == std::byte{7});
}

TEST_CASE("a device that is destroyed ends what it was asked for first") {
  FakeGpu gpu;
  auto opened = CudaDevice::Open(gpu.driver(), "cuda:0");
  REQUIRE(opened.ok());
  auto region = (*opened)->Allocate(64, "test");
  REQUIRE(region.ok());
  std::array<Ending, 3> endings;
  fakecuda_hold();
  std::vector<std::byte> bytes(1);
  (*opened)->Fill(**region, kFirstByte, 7, endings[0].Take());
  (*opened)->Fill(**region, kFirstByte, 8, endings[1].Take());
  (*opened)->Read(**region, kFirstByte, bytes, endings[2].Take());
  std::thread destroyer([&] { opened->reset(); });
  fakecuda_release();
  destroyer.join();
  for (Ending& ending : endings) {
    REQUIRE(ending.is_over());
    CHECK(ending.Wait().ok());
  }
  // The region is still there, and is freed without its device.
  CHECK((*region)->size_bytes() == 64);
}

TEST_CASE("reads do not wait for fills") {
  FakeGpu gpu;
  const auto region = gpu.Allocate(64);
  const auto other = gpu.Allocate(64);
  Ending filled;
  gpu.device().Fill(*region, kFirstByte, 7, [&](absl::Status status) {
    // On the thread of fills, which therefore waits for a read here.
    std::vector<std::byte> bytes(1);
    CHECK(gpu.Read(*other, kFirstByte, bytes).ok());
    filled.Take()(std::move(status));
  });
  CHECK(filled.Wait().ok());
}

TEST_CASE("device memory is copied to another GPU") {
  FakeGpu gpu;
  fakecuda_set("FAKECUDA_DEVICES", "2");
  auto second = CudaDevice::Open(gpu.driver(), "cuda:1");
  REQUIRE(second.ok());
  const auto source = gpu.Allocate(64);
  auto destination = (*second)->Allocate(64, "test");
  REQUIRE(destination.ok());
  REQUIRE(gpu.Fill(*source, kFirstByte, 9).ok());
  const std::array<CopyExtent, 2> extents{
      {{.source_bytes = 0, .destination_bytes = 5, .size_bytes = 2},
       {.source_bytes = 0, .destination_bytes = 0, .size_bytes = 0}}};
  REQUIRE(gpu.Copy(*source, **destination, extents).ok());
  CHECK(fakecuda_calls("cuMemcpyPeerAsync") == 1);
  std::vector<std::byte> bytes(64);
  const std::array<Extent, 1> all{{{.offset_bytes = 0, .size_bytes = 64}}};
  Ending read;
  (*second)->Read(**destination, all, bytes, read.Take());
  REQUIRE(read.Wait().ok());
  std::vector<std::byte> expected(64);
  expected[5] = std::byte{9};
  CHECK(bytes == expected);
}

TEST_CASE("a GPU copies its memory to the host's and back, scattered") {
  FakeGpu gpu;
  InlineExecutor executor;
  HostDevice host(executor);
  const auto region = gpu.Allocate(64);
  auto other = host.Allocate(64, "test");
  REQUIRE(other.ok());
  const std::span<std::byte> host_bytes = (*other)->host_bytes();
  for (size_t i = 0; i < 64; ++i) host_bytes[i] = static_cast<std::byte>(i + 1);
  const std::array<CopyExtent, 3> to_device{
      {{.source_bytes = 60, .destination_bytes = 0, .size_bytes = 4},
       {.source_bytes = 7, .destination_bytes = 7, .size_bytes = 0},
       {.source_bytes = 0, .destination_bytes = 61, .size_bytes = 3}}};
  REQUIRE(gpu.Copy(**other, *region, to_device).ok());
  std::vector<std::byte> expected(64);
  for (size_t i = 0; i < 4; ++i) expected[i] = static_cast<std::byte>(61 + i);
  for (size_t i = 0; i < 3; ++i) expected[61 + i] = static_cast<std::byte>(1 + i);
  CHECK(gpu.ReadAll(*region) == expected);

  std::ranges::fill(host_bytes, std::byte{0xEE});
  const std::array<CopyExtent, 2> to_host{
      {{.source_bytes = 61, .destination_bytes = 1, .size_bytes = 3},
       {.source_bytes = 0, .destination_bytes = 62, .size_bytes = 2}}};
  REQUIRE(gpu.Copy(*region, **other, to_host).ok());
  std::vector<std::byte> expected_host(64, std::byte{0xEE});
  for (size_t i = 0; i < 3; ++i) expected_host[1 + i] = static_cast<std::byte>(1 + i);
  for (size_t i = 0; i < 2; ++i) expected_host[62 + i] = static_cast<std::byte>(61 + i);
  CHECK(std::ranges::equal(host_bytes, expected_host));
}

TEST_CASE("the host refuses to copy what it cannot touch") {
  FakeGpu gpu;
  InlineExecutor executor;
  HostDevice host(executor);
  const auto region = gpu.Allocate(64);
  CHECK(region->host_bytes().empty());
  auto other = host.Allocate(64, "test");
  REQUIRE(other.ok());
  test::WaitingDevice waiting(host);
  for (const bool is_source : {true, false}) {
    const Region& from = is_source ? *region : **other;
    Region& to = is_source ? **other : *region;
    CheckRefused(waiting.Copy(from, to, {}), absl::StatusCode::kFailedPrecondition, Reason::kDevice,
                 {"cannot touch"});
  }
}

TEST_CASE("host memory has no handle of CUDA's, and the host does not fail") {
  InlineExecutor executor;
  HostDevice host(executor);
  const auto region = host.Allocate(64, "test");
  REQUIRE(region.ok());
  CHECK((*region)->ipc_handle().empty());
  CHECK(host.health().ok());
}

TEST_CASE("a GPU without its kernels says why and does everything all the same") {
  FakeGpu gpu;
  fakecuda_set("FAKECUDA_FAIL", "cuModuleLoadData:1:222");
  CheckRefused(gpu.device().kernel_status(), absl::StatusCode::kInternal, Reason::kDevice,
               {"cuModuleLoadData", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)"});
  const auto region = gpu.Allocate(64);
  CHECK(gpu.Fill(*region, kFirstByte, 7).ok());
  CHECK(gpu.device().health().ok());
}

TEST_CASE("a GPU that cannot share its memory is refused when it is opened") {
  FakeGpu gpu;
  const bool is_unified = GENERATE(true, false);
  if (is_unified) {
    fakecuda_set("FAKECUDA_FAIL", "cuIpcGetMemHandle:1:801");
  } else {
    fakecuda_set("FAKECUDA_ATTRIBUTE_41", "0");
  }
  CheckRefused(CudaDevice::Open(gpu.driver(), "cuda:0").status(),
               absl::StatusCode::kFailedPrecondition, Reason::kDevice,
               {"Fake GPU 0", "cannot share its memory"});
}

TEST_CASE("a call that fails while a GPU is opened is the answer, and leaves nothing") {
  FakeGpu gpu;
  const std::string call = GENERATE("cuDevicePrimaryCtxSetFlags", "cuDevicePrimaryCtxRetain",
                                    "cuCtxPushCurrent", "cuStreamCreateWithPriority",
                                    "cuMemHostAlloc", "cuEventCreate", "cuDeviceGetAttribute");
  REQUIRE(gpu.driver() != nullptr);
  fakecuda_set("FAKECUDA_FAIL", (call + ":1:46").c_str());
  CheckRefused(CudaDevice::Open(gpu.driver(), "cuda:0").status(), absl::StatusCode::kUnavailable,
               Reason::kDevice, {call.c_str(), "(46)", "try again"});
  CHECK(CudaDevice::Open(gpu.driver(), "cuda:0").ok());
}

TEST_CASE("an operation that fails says so, and the next one is done") {
  FakeGpu gpu;
  const auto region = gpu.Allocate(64);
  const uint64_t calls = fakecuda_calls("cuMemsetD8Async");
  fakecuda_set("FAKECUDA_FAIL", ("cuMemsetD8Async:" + std::to_string(calls + 1) + ":1").c_str());
  CheckRefused(gpu.Fill(*region, kFirstByte, 7), absl::StatusCode::kInternal, Reason::kDevice,
               {"GPU-", "cuMemsetD8Async: CUDA_ERROR_INVALID_VALUE (1)"});
  CHECK(gpu.device().health().ok());
  CHECK(gpu.Fill(*region, kFirstByte, 7).ok());
}

TEST_CASE("a lost GPU says what was the matter, and refuses everything from then on") {
  FakeGpu gpu;
  const auto region = gpu.Allocate(64);
  const uint64_t calls = fakecuda_calls("cuStreamSynchronize");
  fakecuda_set("FAKECUDA_FAIL",
               ("cuStreamSynchronize:" + std::to_string(calls + 1) + ":700").c_str());
  std::vector<std::byte> bytes(1);
  const auto check = [](const absl::Status& status) {
    CheckRefused(
        status, absl::StatusCode::kFailedPrecondition, Reason::kDeviceFailed,
        {"GPU-10171e25", "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)", "restart"});
  };
  check(gpu.Fill(*region, kFirstByte, 7));
  check(gpu.device().health());
  check(gpu.Fill(*region, kFirstByte, 7));
  check(gpu.Copy(*region, *region, {}));
  check(gpu.Read(*region, kFirstByte, bytes));
  check(gpu.Write(*region, kFirstByte, bytes));
  check(gpu.device().Allocate(64, "test").status());
  check(gpu.device().QueryMemory().status());
}

}  // namespace
}  // namespace kvpool::cuda
