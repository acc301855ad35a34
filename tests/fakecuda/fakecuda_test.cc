// The fake driver within one process: what a test of ours may rely on.
#include <dlfcn.h>

#include <cstring>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "core/device/cuda/kernel_pieces.h"
#include "tests/fakecuda/fixture.h"
#include "tests/fakecuda/hex.h"
#include "tests/support/dies_in_child.h"

namespace fakecuda {
namespace {

constexpr char kPtx[] = R"(.version 6.3
.target sm_75
.visible .entry kvpool_fill(
	.param .u64 kvpool_fill_param_0,
	.param .u32 kvpool_fill_param_1
) {})";

TEST_CASE("a call without a current context is refused, in each thread by itself") {
  const FreshDriver driver;
  DevicePointer pointer = 0;
  REQUIRE(cuInit(0) == Result::kSuccess);
  CHECK(cuMemAlloc_v2(&pointer, 64) == Result::kInvalidContext);
  const CurrentDevice device;
  Result elsewhere = Result::kSuccess;
  std::thread([&] { elsewhere = cuMemAlloc_v2(&pointer, 64); }).join();
  CHECK(elsewhere == Result::kInvalidContext);
}

TEST_CASE("new memory is full of 0xA5") {
  const FreshDriver driver;
  CurrentDevice device;
  const DevicePointer memory = device.Allocate(1000);
  CHECK(device.Read(memory, 1000) == std::vector<uint8_t>(1000, 0xA5));
  CHECK(cuMemFree_v2(memory) == Result::kSuccess);
}

TEST_CASE("the host that follows a device's address crashes") {
  const FreshDriver driver;
  CurrentDevice device;
  const DevicePointer memory = device.Allocate(64);
  CHECK(kvpool::test::TouchingDiesInChild(reinterpret_cast<const std::byte*>(memory)));
  CHECK(cuMemFree_v2(memory) == Result::kSuccess);
}

TEST_CASE("operations on a stream happen later, in order") {
  const FreshDriver driver;
  CurrentDevice device;
  const DevicePointer memory = device.Allocate(64);
  std::vector<uint8_t> bytes(1, 0);
  fakecuda_hold();
  REQUIRE(cuMemsetD8Async(memory, 1, 64, device.stream()) == Result::kSuccess);
  REQUIRE(cuMemsetD8Async(memory, 2, 64, device.stream()) == Result::kSuccess);
  REQUIRE(cuMemcpyDtoHAsync_v2(bytes.data(), memory, 1, device.stream()) == Result::kSuccess);
  Event event = nullptr;
  REQUIRE(cuEventCreate(&event, 0) == Result::kSuccess);
  REQUIRE(cuEventRecord(event, device.stream()) == Result::kSuccess);
  CHECK(bytes[0] == 0);
  CHECK(cuEventQuery(event) == Result::kNotReady);
  fakecuda_release();
  CHECK(cuEventSynchronize(event) == Result::kSuccess);
  CHECK(cuEventQuery(event) == Result::kSuccess);
  CHECK(bytes[0] == 2);
  CHECK(cuEventDestroy_v2(event) == Result::kSuccess);
  CHECK(cuMemFree_v2(memory) == Result::kSuccess);
}

TEST_CASE("copies and fills outside of an allocation are refused") {
  const FreshDriver driver;
  CurrentDevice device;
  const DevicePointer memory = device.Allocate(64);
  std::vector<uint8_t> bytes(65);
  const Stream stream = device.stream();
  CHECK(cuMemsetD8Async(memory + 1, 0, 64, stream) == Result::kInvalidValue);
  CHECK(cuMemsetD2D8Async(memory, 32, 0, 16, 3, stream) == Result::kInvalidValue);
  CHECK(cuMemcpyDtoHAsync_v2(bytes.data(), memory, 65, stream) == Result::kInvalidValue);
  CHECK(cuMemcpyHtoDAsync_v2(memory, bytes.data(), 65, stream) == Result::kInvalidValue);
  CHECK(cuMemcpyDtoDAsync_v2(memory, memory + 32, 33, stream) == Result::kInvalidValue);
  CHECK(cuMemFree_v2(memory) == Result::kSuccess);
  CHECK(cuMemcpyDtoHAsync_v2(bytes.data(), memory, 1, stream) == Result::kInvalidValue);
}

TEST_CASE("a fill in two dimensions leaves what is between its rows") {
  const FreshDriver driver;
  CurrentDevice device;
  const DevicePointer memory = device.Allocate(8);
  REQUIRE(cuMemsetD2D8Async(memory, 3, 7, 2, 3, device.stream()) == Result::kSuccess);
  CHECK(device.Read(memory, 8) == std::vector<uint8_t>{7, 7, 0xA5, 7, 7, 0xA5, 7, 7});
  CHECK(cuMemFree_v2(memory) == Result::kSuccess);
}

TEST_CASE("both declarations of the batched copy want attributes, and do all copies") {
  const FreshDriver driver;
  CurrentDevice device;
  const bool is_new = GENERATE(false, true);
  const DevicePointer memory = device.Allocate(64);
  std::vector<uint8_t> bytes(64);
  std::iota(bytes.begin(), bytes.end(), uint8_t{1});
  std::vector<DevicePointer> to = {memory, memory + 32};
  std::vector<DevicePointer> from = {reinterpret_cast<DevicePointer>(bytes.data()),
                                     reinterpret_cast<DevicePointer>(bytes.data() + 32)};
  std::vector<size_t> sizes = {32, 32};
  const auto copy = [&](int order, size_t attribute_count) {
    CopyAttributes attributes{.source_access_order = order};
    size_t first = 0;
    size_t failed = 0;
    return is_new ? cuMemcpyBatchAsync_v2(to.data(), from.data(), sizes.data(), 2, &attributes,
                                          &first, attribute_count, device.stream())
                  : cuMemcpyBatchAsync(to.data(), from.data(), sizes.data(), 2, &attributes, &first,
                                       attribute_count, &failed, device.stream());
  };
  CHECK(copy(0, 1) == Result::kInvalidValue);
  CHECK(copy(1, 0) == Result::kInvalidValue);
  REQUIRE(copy(1, 1) == Result::kSuccess);
  CHECK(device.Read(memory, 64) == bytes);
  CHECK(cuMemFree_v2(memory) == Result::kSuccess);
}

TEST_CASE("the declaration that a lookup gives is the newest that caller and driver know") {
  const FreshDriver driver;
  void* address = nullptr;
  const auto find = [&](const char* name, int version) {
    int status = 0;
    return cuGetProcAddress_v2(name, &address, version, 0, &status);
  };
  REQUIRE(find("cuMemcpyBatchAsync", 12'080) == Result::kSuccess);
  CHECK(address == reinterpret_cast<void*>(cuMemcpyBatchAsync));
  REQUIRE(find("cuMemcpyBatchAsync", 13'000) == Result::kSuccess);
  CHECK(address == reinterpret_cast<void*>(cuMemcpyBatchAsync_v2));
  REQUIRE(find("cuMemcpyBatchAsync", 12'070) == Result::kSuccess);
  CHECK(address == nullptr);
  fakecuda_set("FAKECUDA_VERSION", "12080");
  CHECK(find("cuMemcpyBatchAsync", 13'000) == Result::kInvalidValue);
}

TEST_CASE("a call fails by its number, is counted, and is in the log") {
  const FreshDriver driver;
  const std::string log = driver.File("calls");
  fakecuda_set("FAKECUDA_LOG", log.c_str());
  fakecuda_set("FAKECUDA_FAIL", "cuDeviceGetCount:2:999,cuInit:0:100");
  REQUIRE(cuInit(0) == Result::kNoDevice);
  CHECK(cuInit(0) == Result::kNoDevice);
  fakecuda_set("FAKECUDA_FAIL", "cuDeviceGetCount:2:999");
  REQUIRE(cuInit(0) == Result::kSuccess);
  int count = 0;
  CHECK(cuDeviceGetCount(&count) == Result::kSuccess);
  CHECK(cuDeviceGetCount(&count) == Result::kUnknown);
  CHECK(cuDeviceGetCount(&count) == Result::kSuccess);
  CHECK(fakecuda_calls("cuDeviceGetCount") == 3);
  CHECK(fakecuda_calls("cuMemAlloc") == 0);
  std::ifstream lines(log);
  std::string all((std::istreambuf_iterator<char>(lines)), std::istreambuf_iterator<char>());
  CHECK(all ==
        "cuInit 100\ncuInit 100\ncuInit 0\ncuDeviceGetCount 0\ncuDeviceGetCount 999\n"
        "cuDeviceGetCount 0\n");
}

TEST_CASE("a context that has failed does nothing more") {
  const FreshDriver driver;
  CurrentDevice device;
  const DevicePointer memory = device.Allocate(64);
  fakecuda_set("FAKECUDA_FAIL", "cuStreamSynchronize:1:700");
  CHECK(cuStreamSynchronize(device.stream()) == Result::kIllegalAddress);
  CHECK(cuStreamSynchronize(device.stream()) == Result::kIllegalAddress);
  DevicePointer more = 0;
  CHECK(cuMemAlloc_v2(&more, 64) == Result::kIllegalAddress);
  CHECK(cuMemFree_v2(memory) == Result::kSuccess);
}

TEST_CASE("visible devices are chosen by ordinal or UUID, up to the first unknown one") {
  const FreshDriver driver;
  fakecuda_set("FAKECUDA_DEVICES", "3");
  REQUIRE(cuInit(0) == Result::kSuccess);
  Uuid uuid{};
  REQUIRE(cuDeviceGetUuid_v2(&uuid, 2) == Result::kSuccess);
  const std::string third = "GPU-" + ToHex(uuid).substr(0, 8);
  fakecuda_set("CUDA_VISIBLE_DEVICES", (third + ",0,7,1").c_str());
  int count = 0;
  REQUIRE(cuDeviceGetCount(&count) == Result::kSuccess);
  CHECK(count == 2);
  Uuid first{};
  REQUIRE(cuDeviceGetUuid_v2(&first, 0) == Result::kSuccess);
  CHECK(ToHex(first) == ToHex(uuid));
  CHECK(cuDeviceGetUuid_v2(&first, 2) == Result::kInvalidDevice);
}

TEST_CASE("a kernel runs by its name, with the parameters of its launch") {
  const FreshDriver driver;
  CurrentDevice device;
  const DevicePointer memory = device.Allocate(128);
  const DevicePointer list = device.Allocate(sizeof(kvpool::cuda::FillPiece));
  const kvpool::cuda::FillPiece piece{.to = memory + 1, .size = 100};
  std::vector<uint8_t> bytes(sizeof(piece));
  std::memcpy(bytes.data(), &piece, sizeof(piece));
  device.Write(list, bytes);
  Module module = nullptr;
  Function function = nullptr;
  REQUIRE(cuModuleLoadData(&module, kPtx) == Result::kSuccess);
  CHECK(cuModuleGetFunction(&function, module, "kvpool_copy") == Result::kNotFound);
  REQUIRE(cuModuleGetFunction(&function, module, "kvpool_fill") == Result::kSuccess);
  {
    uint64_t pieces = list;
    uint32_t value = 7;
    void* parameters[] = {&pieces, &value};
    REQUIRE(cuLaunchKernel(function, 1, 2, 1, 32, 1, 1, 0, device.stream(), parameters, nullptr) ==
            Result::kSuccess);
    pieces = 0;
    value = 0;
  }
  std::vector<uint8_t> expected(128, 0xA5);
  std::fill_n(expected.begin() + 1, 100, uint8_t{7});
  CHECK(device.Read(memory, 128) == expected);
  CHECK(cuModuleUnload(module) == Result::kSuccess);
  CHECK(cuMemFree_v2(list) == Result::kSuccess);
  CHECK(cuMemFree_v2(memory) == Result::kSuccess);
}

TEST_CASE("a kernel that touches what is not the device's ends its context") {
  const FreshDriver driver;
  CurrentDevice device;
  Module module = nullptr;
  Function function = nullptr;
  REQUIRE(cuModuleLoadData(&module, kPtx) == Result::kSuccess);
  REQUIRE(cuModuleGetFunction(&function, module, "kvpool_fill") == Result::kSuccess);
  kvpool::cuda::FillPiece on_the_host{};
  auto pieces = reinterpret_cast<uint64_t>(&on_the_host);
  uint32_t value = 7;
  void* parameters[] = {&pieces, &value};
  REQUIRE(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, device.stream(), parameters, nullptr) ==
          Result::kSuccess);
  CHECK(cuStreamSynchronize(device.stream()) == Result::kIllegalAddress);
  CHECK(cuModuleUnload(module) == Result::kSuccess);
}

TEST_CASE("PTX of other parameters than the kernel's source is refused") {
  const FreshDriver driver;
  const CurrentDevice device;
  std::string ptx = kPtx;
  ptx.replace(ptx.find(".u32"), 4, ".u64");
  Module module = nullptr;
  Function function = nullptr;
  CHECK(cuModuleLoadData(&module, "nonsense") == Result::kInvalidPtx);
  REQUIRE(cuModuleLoadData(&module, ptx.c_str()) == Result::kSuccess);
  CHECK(cuModuleGetFunction(&function, module, "kvpool_fill") == Result::kInvalidPtx);
  CHECK(cuModuleUnload(module) == Result::kSuccess);
}

TEST_CASE("objects are counted as long as they live") {
  const FreshDriver driver;
  {
    CurrentDevice device;
    const DevicePointer memory = device.Allocate(64);
    void* host = nullptr;
    REQUIRE(cuMemHostAlloc(&host, 64, 0) == Result::kSuccess);
    CHECK(fakecuda_live("context") == 1);
    CHECK(fakecuda_live("allocation") == 1);
    CHECK(fakecuda_live("host") == 1);
    CHECK(fakecuda_live("stream") == 1);
    CHECK(cuMemFreeHost(host) == Result::kSuccess);
    CHECK(cuMemFree_v2(memory) == Result::kSuccess);
  }
  for (const char* kind :
       {"context", "allocation", "import", "host", "stream", "event", "module"}) {
    CAPTURE(kind);
    CHECK(fakecuda_live(kind) == 0);
  }
}

}  // namespace
}  // namespace fakecuda
