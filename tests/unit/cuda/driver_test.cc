#include "core/device/cuda/driver.h"

#include <cstdlib>
#include <string>

#include "core/error.h"
#include "tests/fakecuda/fixture.h"
#include "tests/unit/cuda/says.h"

namespace kvpool::cuda {
namespace {

using fakecuda::FreshDriver;

TEST_CASE("the driver is found at run time, and says which version it is") {
  const FreshDriver fresh;
  const auto driver = Driver::Load(FAKECUDA_LIBRARY);
  REQUIRE(driver.ok());
  CHECK((*driver)->version() == 13'000);
  int count = 0;
  CHECK((*driver)->api().cuDeviceGetCount(&count) == Result::kSuccess);
  CHECK(count == 1);
}

TEST_CASE("the environment names the driver's library, else it is the system's") {
  CHECK(unsetenv("KVPOOL_LIBCUDA") == 0);
  CHECK(DriverLibrary() == "libcuda.so.1");
  CHECK(setenv("KVPOOL_LIBCUDA", "", 1) == 0);
  CHECK(DriverLibrary() == "libcuda.so.1");
  CHECK(setenv("KVPOOL_LIBCUDA", "/opt/libcuda.so.1", 1) == 0);
  CHECK(DriverLibrary() == "/opt/libcuda.so.1");
  CHECK(unsetenv("KVPOOL_LIBCUDA") == 0);
}

TEST_CASE("a machine without a driver is told what to install") {
  CheckRefused(Driver::Load("/nowhere/libcuda.so.1").status(),
               absl::StatusCode::kFailedPrecondition, Reason::kDevice,
               {"no CUDA driver here", "/nowhere/libcuda.so.1", "KVPOOL_LIBCUDA"});
}

TEST_CASE("a library that is no driver is refused") {
  CheckRefused(Driver::Load("libm.so.6").status(), absl::StatusCode::kFailedPrecondition,
               Reason::kDevice, {"'libm.so.6'", "no cuGetProcAddress"});
}

TEST_CASE("a driver that is too old is refused with both versions") {
  const FreshDriver fresh;
  fakecuda_set("FAKECUDA_VERSION", "11030");
  CheckRefused(Driver::Load(FAKECUDA_LIBRARY).status(), absl::StatusCode::kFailedPrecondition,
               Reason::kDevice, {"too old", "CUDA 11.3", "CUDA 11.4"});
}

TEST_CASE("a driver that lacks a call that is needed is refused by the call's name") {
  const FreshDriver fresh;
  const char* const name = GENERATE("cuInit", "cuDriverGetVersion", "cuLaunchKernel", "cuMemAlloc");
  fakecuda_set("FAKECUDA_WITHOUT", name);
  CheckRefused(Driver::Load(FAKECUDA_LIBRARY).status(), absl::StatusCode::kFailedPrecondition,
               Reason::kDevice, {"too old", name});
}

TEST_CASE("the oldest driver will do, without what it has not") {
  const FreshDriver fresh;
  fakecuda_set("FAKECUDA_VERSION", "11040");
  const auto driver = Driver::Load(FAKECUDA_LIBRARY);
  REQUIRE(driver.ok());
  CHECK((*driver)->api().cuMemcpyBatchAsync12 == nullptr);
  CHECK((*driver)->api().cuMemcpyBatchAsync13 == nullptr);
}

TEST_CASE("the batched copy is taken in the declaration of the driver's version") {
  const FreshDriver fresh;
  const bool is_new = GENERATE(false, true);
  fakecuda_set("FAKECUDA_VERSION", is_new ? "13000" : "12090");
  const auto driver = Driver::Load(FAKECUDA_LIBRARY);
  REQUIRE(driver.ok());
  const Api& api = (*driver)->api();
  CHECK((api.cuMemcpyBatchAsync12 != nullptr) == !is_new);
  CHECK((api.cuMemcpyBatchAsync13 != nullptr) == is_new);
}

TEST_CASE("a driver with the first cuGetProcAddress alone will do") {
  const FreshDriver fresh;
  const auto driver = Driver::Load(FAKECUDA_OLD_LIBRARY);
  REQUIRE(driver.ok());
  CHECK((*driver)->api().cuLaunchKernel != nullptr);
}

TEST_CASE("a machine without a device is told where to look") {
  const FreshDriver fresh;
  fakecuda_set("CUDA_VISIBLE_DEVICES", "none");
  CheckRefused(Driver::Load(FAKECUDA_LIBRARY).status(), absl::StatusCode::kFailedPrecondition,
               Reason::kDevice, {"cuInit: CUDA_ERROR_NO_DEVICE (100)", "CUDA_VISIBLE_DEVICES"});
}

TEST_CASE("a fabric that is not up yet is worth another try") {
  const FreshDriver fresh;
  fakecuda_set("FAKECUDA_FAIL", "cuInit:1:802");
  CheckRefused(Driver::Load(FAKECUDA_LIBRARY).status(), absl::StatusCode::kUnavailable,
               Reason::kDevice, {"CUDA_ERROR_SYSTEM_NOT_READY (802)", "nvidia-fabricmanager"});
  CHECK(Driver::Load(FAKECUDA_LIBRARY).ok());
}

TEST_CASE("library and kernel module of different releases are told apart from no driver") {
  const FreshDriver fresh;
  fakecuda_set("FAKECUDA_FAIL", "cuInit:1:803");
  CheckRefused(Driver::Load(FAKECUDA_LIBRARY).status(), absl::StatusCode::kFailedPrecondition,
               Reason::kDevice, {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", "reload"});
}

TEST_CASE("what a call results in becomes a status with its name, number and advice") {
  const FreshDriver fresh;
  const auto driver = Driver::Load(FAKECUDA_LIBRARY);
  REQUIRE(driver.ok());
  const auto status = [&](Result result) { return (*driver)->ToStatus(result, "cuCall"); };
  CHECK(status(Result::kSuccess).ok());
  CheckRefused(status(Result::kOutOfMemory), absl::StatusCode::kResourceExhausted, Reason::kDevice,
               {"cuCall: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory", "free memory"});
  CheckRefused(status(Result::kIllegalAddress), absl::StatusCode::kFailedPrecondition,
               Reason::kDeviceFailed, {"CUDA_ERROR_ILLEGAL_ADDRESS (700)", "restart"});
  CheckRefused(status(Result::kDeviceUnavailable), absl::StatusCode::kUnavailable, Reason::kDevice,
               {"(46)", "try again"});
  CheckRefused(status(Result::kInvalidValue), absl::StatusCode::kInternal, Reason::kDevice,
               {"cuCall: CUDA_ERROR_INVALID_VALUE (1): invalid argument"});
  CheckRefused(status(static_cast<Result>(12'345)), absl::StatusCode::kInternal, Reason::kDevice,
               {"cuCall: unknown error (12345)"});
}

TEST_CASE("a lost context is told from a call that failed") {
  for (const Result result : {Result::kEccUncorrectable, Result::kIllegalAddress,
                              Result::kLaunchFailed, Result::kContained, Result::kUnknown}) {
    CAPTURE(static_cast<int>(result));
    CHECK(IsLost(result));
  }
  for (const Result result : {Result::kSuccess, Result::kInvalidValue, Result::kOutOfMemory,
                              Result::kInvalidContext, Result::kNotReady, Result::kTooManyPeers}) {
    CAPTURE(static_cast<int>(result));
    CHECK_FALSE(IsLost(result));
  }
}

}  // namespace
}  // namespace kvpool::cuda
