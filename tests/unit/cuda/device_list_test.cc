#include "core/device/cuda/device_list.h"

#include <string>

#include "tests/unit/cuda/fixture.h"
#include "tests/unit/cuda/says.h"

namespace kvpool::cuda {
namespace {

TEST_CASE("devices are listed by ordinal, with a UUID as nvidia-smi writes it") {
  FakeGpu gpu;
  fakecuda_set("FAKECUDA_DEVICES", "2");
  const auto devices = ListDevices(*gpu.driver());
  REQUIRE(devices.ok());
  REQUIRE(devices->size() == 2);
  CHECK((*devices)[0].ordinal == 0);
  CHECK((*devices)[0].name == "Fake GPU 0");
  CHECK((*devices)[0].uuid == "GPU-10171e25-2c33-3a41-484f-565d646b7279");
  CHECK((*devices)[1].ordinal == 1);
  CHECK((*devices)[1].uuid != (*devices)[0].uuid);
}

TEST_CASE("a part of a GPU has a UUID of its own, which says so") {
  FakeGpu gpu;
  fakecuda_set("FAKECUDA_MIG", "1");
  const auto devices = ListDevices(*gpu.driver());
  REQUIRE(devices.ok());
  CHECK(devices->at(0).uuid.starts_with("MIG-"));
}

TEST_CASE("a device is found by its ordinal and by its UUID, wherever it is in the list") {
  FakeGpu gpu;
  fakecuda_set("FAKECUDA_DEVICES", "3");
  const auto second = FindDevice(*gpu.driver(), "cuda:1");
  REQUIRE(second.ok());
  CHECK(second->name == "Fake GPU 1");
  fakecuda_set("CUDA_VISIBLE_DEVICES", "2,1");
  const auto moved = FindDevice(*gpu.driver(), "cuda:" + second->uuid);
  REQUIRE(moved.ok());
  CHECK(moved->uuid == second->uuid);
  CHECK(FindDevice(*gpu.driver(), "cuda:0")->name == "Fake GPU 2");
}

TEST_CASE("a device that is not there is refused with those that are") {
  FakeGpu gpu;
  const std::string selector =
      GENERATE("cuda:1", "cuda:GPU-00000000-0000-0000-0000-000000000000", "cuda:-1");
  CheckRefused(FindDevice(*gpu.driver(), selector).status(), absl::StatusCode::kFailedPrecondition,
               Reason::kDevice, {selector.c_str(), "0 = GPU-10171e25-"});
}

TEST_CASE("what means no device is an invalid argument") {
  FakeGpu gpu;
  const std::string selector = GENERATE("host", "cuda:", "cuda:first", "0", "CUDA:0");
  CHECK(FindDevice(*gpu.driver(), selector).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("a driver that will not tell about a device is heard") {
  FakeGpu gpu;
  const std::string call =
      GENERATE("cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetUuid", "cuDeviceGetName");
  REQUIRE(gpu.driver() != nullptr);
  fakecuda_set("FAKECUDA_FAIL", (call + ":0:1").c_str());
  CheckRefused(ListDevices(*gpu.driver()).status(), absl::StatusCode::kInternal, Reason::kDevice,
               {call.c_str(), "(1)"});
}

}  // namespace
}  // namespace kvpool::cuda
