#include "core/device/cuda/cuda_devices.h"

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/cuda/fixture.h"
#include "tests/unit/cuda/says.h"

namespace kvpool::cuda {
namespace {

TEST_CASE("a GPU is opened once, by whatever name it is asked for") {
  const fakecuda::FreshDriver fresh;
  fakecuda_set("FAKECUDA_DEVICES", "2");
  CudaDevices devices(FAKECUDA_LIBRARY);
  const auto first = devices.Find("cuda:1");
  REQUIRE(first.ok());
  const uint64_t streams = fakecuda_live("stream");
  const auto again = devices.Find("cuda:" + (*first)->info().uuid);
  REQUIRE(again.ok());
  CHECK(*again == *first);
  CHECK(fakecuda_live("stream") == streams);
  const auto other = devices.Find("cuda:0");
  REQUIRE(other.ok());
  CHECK(*other != *first);
}

TEST_CASE("nothing of CUDA is touched before a GPU is asked for") {
  const fakecuda::FreshDriver fresh;
  const CudaDevices devices(FAKECUDA_LIBRARY);
  CHECK(fakecuda_calls("cuInit") == 0);
}

TEST_CASE("GPUs are listed without being opened") {
  const fakecuda::FreshDriver fresh;
  fakecuda_set("FAKECUDA_DEVICES", "3");
  CudaDevices devices(FAKECUDA_LIBRARY);
  const auto list = devices.List();
  REQUIRE(list.ok());
  CHECK(list->size() == 3);
  CHECK(fakecuda_live("context") == 0);
}

TEST_CASE("a driver that was not ready is tried again") {
  const fakecuda::FreshDriver fresh;
  fakecuda_set("FAKECUDA_FAIL", "cuInit:1:802,cuDevicePrimaryCtxRetain:1:46");
  CudaDevices devices(FAKECUDA_LIBRARY);
  CheckRefused(devices.List().status(), absl::StatusCode::kUnavailable, Reason::kDevice, {"(802)"});
  CheckRefused(devices.Find("cuda:0").status(), absl::StatusCode::kUnavailable, Reason::kDevice,
               {"(46)"});
  CHECK(devices.Find("cuda:0").ok());
}

TEST_CASE("a machine without a driver says so for each GPU that is asked for") {
  CudaDevices devices("/nowhere/libcuda.so.1");
  CheckRefused(devices.Find("cuda:0").status(), absl::StatusCode::kFailedPrecondition,
               Reason::kDevice, {"no CUDA driver"});
  CheckRefused(devices.List().status(), absl::StatusCode::kFailedPrecondition, Reason::kDevice,
               {"no CUDA driver"});
}

TEST_CASE("a GPU that is not there and what is no GPU's name are told apart") {
  const fakecuda::FreshDriver fresh;
  CudaDevices devices(FAKECUDA_LIBRARY);
  CHECK(devices.Find("host").status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(devices.Find("cuda:9").status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("threads that ask for a GPU at once are given the same") {
  const fakecuda::FreshDriver fresh;
  CudaDevices devices(FAKECUDA_LIBRARY);
  std::array<Device*, 4> given{};
  std::vector<std::thread> threads;
  for (Device*& device : given) {
    threads.emplace_back([&devices, &device] {
      const auto got = devices.Find("cuda:0");
      if (got.ok()) device = *got;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(given[0] != nullptr);
  for (const Device* device : given) CHECK(device == given[0]);
}

}  // namespace
}  // namespace kvpool::cuda
