// What the backend relies on of a CUDA driver: run on the fake one with the other tests, and on a
// real one by tests/gpu/check.sh, so that the fake cannot become another thing than it stands for.
#include <unistd.h>

#include <array>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"

#include "core/device/cuda/cuda_device.h"
#include "core/device/cuda/driver.h"
#include "core/device/cuda/imported_region.h"
#include "core/error.h"
#include "core/memory/checksum.h"
#include "tests/gpu/device_model.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"

namespace kvpool::cuda {
namespace {

constexpr uint64_t kSize = uint64_t{2} << 20;

std::shared_ptr<const Driver> TheDriver() {
  auto driver = Driver::Load(DriverLibrary());
  CAPTURE(driver.status().message());
  REQUIRE(driver.ok());
  return *driver;
}

std::unique_ptr<CudaDevice> OpenDevice() {
  auto device = CudaDevice::Open(TheDriver(), "cuda:0");
  CAPTURE(device.status().message());
  REQUIRE(device.ok());
  return *std::move(device);
}

std::unique_ptr<Region> Allocate(CudaDevice& device, uint64_t size_bytes) {
  auto region = device.Allocate(size_bytes, "contract");
  CAPTURE(region.status().message());
  REQUIRE(region.ok());
  return *std::move(region);
}

std::string HexOf(std::span<const std::byte> bytes) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// Another process on the same device.
class Worker {
 public:
  // The program that is beside this one, wherever they were built.
  Worker()
      : process_({.arguments = {std::filesystem::read_symlink("/proc/self/exe")
                                    .replace_filename("gpu_worker")
                                    .string()},
                  .environment = {},
                  .stderr_path = {},
                  .uid = {}}) {}

  std::string Do(const std::string& command) {
    process_.WriteLine(command);
    return process_.ReadLine().value_or("it ended");
  }
  std::string Open(const Region& region, uint64_t size_bytes) {
    return Do("open " + HexOf(region.ipc_handle()) + " " + std::to_string(size_bytes));
  }
  void Kill() { process_.Kill(); }

 private:
  test::ChildProcess process_;
};

TEST_CASE("a driver has a device with a UUID and a name") {
  const auto devices = ListDevices(*TheDriver());
  REQUIRE(devices.ok());
  REQUIRE_FALSE(devices->empty());
  for (const DeviceEntry& entry : *devices) {
    CAPTURE(entry.uuid, entry.name);
    CHECK((entry.uuid.starts_with("GPU-") || entry.uuid.starts_with("MIG-")));
    CHECK(entry.uuid.size() == 40);
    CHECK_FALSE(entry.name.empty());
  }
}

TEST_CASE("a driver compiles the kernels for its device") {
  const auto device = OpenDevice();
  CAPTURE(device->kernel_status().message());
  CHECK(device->kernel_status().ok());
}

TEST_CASE("a device's free memory shrinks by what is allocated, and grows again") {
  const auto device = OpenDevice();
  const auto before = device->QueryMemory();
  REQUIRE(before.ok());
  CHECK(before->free_bytes <= before->total_bytes);
  auto region = Allocate(*device, 8 * kSize);
  CHECK(device->QueryMemory()->free_bytes + 8 * kSize <= before->free_bytes);
  region.reset();
  CHECK(device->QueryMemory()->free_bytes == before->free_bytes);
}

TEST_CASE("more memory than there is is refused, and the device goes on") {
  const auto device = OpenDevice();
  const uint64_t total = device->QueryMemory()->total_bytes;
  CHECK(device->Allocate(total + kSize, "contract").status().code() ==
        absl::StatusCode::kResourceExhausted);
  CHECK(device->health().ok());
  CHECK(Allocate(*device, kSize)->size_bytes() == kSize);
}

TEST_CASE("a driver does what random operations say") {
  const uint64_t seed = test::Seed();
  const auto device = OpenDevice();
  test::DeviceModel model(*device, seed);
  for (int step = 0; step < 200; ++step) {
    CAPTURE(seed, step);
    model.Step();
  }
  CAPTURE(seed);
  model.Check();
}

TEST_CASE("a driver's sums are the host's") {
  const uint64_t seed = test::Seed();
  CAPTURE(seed);
  test::Random random(seed);
  const auto device = OpenDevice();
  const auto region = Allocate(*device, kSize);
  // Of moderate size, so that sums in any order are alike: 0x3F.. is about 1 in bf16 and fp32.
  std::vector<std::byte> bytes(kSize);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = i % 2 == 1 ? std::byte{0x3F} : static_cast<std::byte>(random.Below(256));
  }
  const std::vector<Extent> extents{{.offset_bytes = 0, .size_bytes = kSize},
                                    {.offset_bytes = 4096, .size_bytes = 8192},
                                    {.offset_bytes = 12, .size_bytes = 4}};
  REQUIRE(test::WaitingDevice(*device).Write(*region, std::span(extents).first(1), bytes).ok());
  const Dtype dtype = GENERATE(Dtype::kFp32, Dtype::kFp16, Dtype::kBf16, Dtype::kFp8, Dtype::kRaw);
  CAPTURE(DtypeName(dtype));
  std::vector<ExtentSums> results(extents.size());
  test::Ending ending;
  device->Sum(*region, extents, dtype, results, ending.Take());
  REQUIRE(ending.Wait().ok());
  for (size_t i = 0; i < extents.size(); ++i) {
    CAPTURE(i);
    ChecksumBuilder builder(dtype);
    builder.Add(std::span(bytes).subspan(extents[i].offset_bytes, extents[i].size_bytes));
    const SideChecksum host = builder.Result();
    const double allowed = 1e-12 * host.sum_of_absolutes;
    CHECK(results[i].crc32c == host.crc32c);
    CHECK(results[i].nan_count == host.nan_count);
    CHECK(std::fabs(results[i].sum - host.sum) <= allowed);
    CHECK(std::fabs(results[i].sum_of_absolutes - host.sum_of_absolutes) <= allowed);
    CHECK(std::fabs(results[i].sum_of_squares - host.sum_of_squares) <=
          1e-12 * host.sum_of_squares);
  }
}

TEST_CASE("two processes share a region's bytes") {
  const auto device = OpenDevice();
  const auto region = Allocate(*device, kSize);
  Worker worker;
  REQUIRE(worker.Open(*region, kSize) == "ok");
  CHECK(worker.Do("peek 5") == "0");
  REQUIRE(worker.Do("poke 5 55") == "ok");
  CHECK(test::WaitingDevice(*device).ReadAll(*region)[5] == std::byte{55});
}

TEST_CASE("a process that opens its own region is told of its pid") {
  const auto driver = TheDriver();
  const auto device = OpenDevice();
  const auto region = Allocate(*device, kSize);
  const auto context = DeviceContext::Retain(driver, FindDevice(*driver, "cuda:0").value());
  REQUIRE(context.ok());
  const auto opened = ImportedRegion::Open(*context, region->ipc_handle(), kSize);
  CHECK(GetErrorDetail(opened.status()).reason == Reason::kPidCollision);
}

TEST_CASE("a region's owner that dies leaves it to those who have it, and to nobody else") {
  auto owner = std::make_unique<Worker>();
  const std::string hex = owner->Do("make " + std::to_string(kSize));
  REQUIRE(hex.size() == 128);
  Worker importer;
  const std::string open = "open " + hex + " " + std::to_string(kSize);
  REQUIRE(importer.Do(open) == "ok");
  REQUIRE(importer.Do("poke 9 99") == "ok");
  owner->Kill();
  CHECK(importer.Do("peek 9") == "99");
  Worker late;
  CHECK(late.Do(open).starts_with("DEVICE "));
}

TEST_CASE("a region that was freed cannot be opened") {
  const auto device = OpenDevice();
  auto region = Allocate(*device, kSize);
  const std::string hex = HexOf(region->ipc_handle());
  region.reset();
  Worker worker;
  CHECK(worker.Do("open " + hex + " " + std::to_string(kSize)).starts_with("DEVICE "));
}

}  // namespace
}  // namespace kvpool::cuda
