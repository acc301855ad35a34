// A process that opens a region of another, as a worker does, told by lines on its standard input:
//
//   open HANDLE SIZE     answers "ok", or the error's reason and message
//   close
//   peek OFFSET          answers the byte, as a number
//   poke OFFSET VALUE    answers "ok"
//   make SIZE            allocates a region of its own, and answers its handle
//   drop                 frees it
#include <cstring>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "core/device/cuda/cuda_device.h"
#include "core/device/cuda/driver.h"
#include "core/device/cuda/imported_region.h"
#include "core/error.h"
#include "core/hex.h"
#include "tests/gpu/waiting_device.h"

namespace kvpool::cuda {
namespace {

std::string Text(const absl::Status& status) {
  if (status.ok()) return "ok";
  return absl::StrCat(ReasonName(GetErrorDetail(status).reason), " ", status.message());
}

class Worker {
 public:
  explicit Worker(const std::shared_ptr<const Driver>& driver)
      : context_(DeviceContext::Retain(driver, FindDevice(*driver, "cuda:0").value()).value()),
        lane_(Lane::Create(context_, nullptr, "worker").value()),
        device_(CudaDevice::Open(driver, "cuda:0").value()) {}

  std::string Do(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "open") return Open(words);
    if (command == "close") return imported_.reset(), "ok";
    if (command == "peek") return Peek(words);
    if (command == "poke") return Poke(words);
    if (command == "make") return Make(words);
    if (command == "drop") return made_.reset(), "ok";
    return "what?";
  }

 private:
  std::string Open(std::istringstream& words) {
    std::string hex;
    uint64_t size = 0;
    words >> hex >> size;
    const std::string handle = BytesFromHex(hex).value_or("");
    auto opened = ImportedRegion::Open(context_, std::as_bytes(std::span(handle)), size);
    if (!opened.ok()) return Text(opened.status());
    imported_ = *std::move(opened);
    return "ok";
  }

  std::string Peek(std::istringstream& words) {
    uint64_t offset = 0;
    words >> offset;
    uint8_t byte = 0;
    const absl::Status status = DoOnLane([&](Lane& lane) {
      return lane.Check(lane.api().cuMemcpyAsync(reinterpret_cast<DevicePointer>(&byte),
                                                 imported_->base() + offset, 1, lane.stream()),
                        "cuMemcpyAsync");
    });
    return status.ok() ? std::to_string(byte) : Text(status);
  }

  std::string Poke(std::istringstream& words) {
    uint64_t offset = 0;
    uint32_t value = 0;
    words >> offset >> value;
    return Text(DoOnLane([&](Lane& lane) {
      return lane.Check(
          lane.api().cuMemsetD8Async(imported_->base() + offset, static_cast<unsigned char>(value),
                                     1, lane.stream()),
          "cuMemsetD8Async");
    }));
  }

  std::string Make(std::istringstream& words) {
    uint64_t size = 0;
    words >> size;
    auto made = device_->Allocate(size, "worker");
    if (!made.ok()) return Text(made.status());
    made_ = *std::move(made);
    const auto handle = made_->ipc_handle();
    return absl::BytesToHexString({reinterpret_cast<const char*>(handle.data()), handle.size()});
  }

  absl::Status DoOnLane(Lane::Work work) {
    test::Ending ending;
    lane_->Post(std::move(work), ending.Take());
    return ending.Wait();
  }

  const std::shared_ptr<DeviceContext> context_;
  const std::unique_ptr<Lane> lane_;
  const std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<ImportedRegion> imported_;
  std::unique_ptr<Region> made_;
};

}  // namespace
}  // namespace kvpool::cuda

int main() {
  const auto driver = kvpool::cuda::Driver::Load(kvpool::cuda::DriverLibrary());
  if (!driver.ok()) {
    std::cerr << driver.status().message() << std::endl;
    return 1;
  }
  kvpool::cuda::Worker worker(*driver);
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << worker.Do(line) << std::endl;
  }
  return 0;
}
