#include "core/device/cuda/imported_region.h"

#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/fakecuda/peer.h"
#include "tests/unit/cuda/fixture.h"
#include "tests/unit/cuda/says.h"

namespace kvpool::cuda {
namespace {

constexpr uint64_t kSize = kRegionPageBytes;

// A process that owns memory, and this one, which opens it.
class Import {
 public:
  explicit Import(std::vector<std::string> owner_environment = {}) {
    owner_environment.push_back("FAKECUDA_DIR=" + gpu_.fresh().directory());
    auto context =
        DeviceContext::Retain(gpu_.driver(), FindDevice(*gpu_.driver(), "cuda:0").value());
    REQUIRE(context.ok());
    context_ = *context;
    owner_ = std::make_unique<fakecuda::Peer>(owner_environment);
    std::string hex;
    REQUIRE(owner_->Do("make " + std::to_string(kSize), &hex) == 0);
    handle_ = fakecuda::FromHex(hex);
  }

  absl::StatusOr<std::unique_ptr<ImportedRegion>> Open(uint64_t size_bytes = kSize) {
    return ImportedRegion::Open(context_, std::as_bytes(std::span(handle_.bytes)), size_bytes);
  }
  // A byte of what is at `at` on the device.
  uint8_t ByteAt(DevicePointer at) {
    auto lane = Lane::Create(context_, nullptr, "test");
    REQUIRE(lane.ok());
    uint8_t byte = 0;
    Ending ending;
    (*lane)->Post(
        [&](Lane& on) {
          return on.Check(
              on.api().cuMemcpyAsync(reinterpret_cast<DevicePointer>(&byte), at, 1, on.stream()),
              "copy");
        },
        ending.Take());
    REQUIRE(ending.Wait().ok());
    return byte;
  }

  FakeGpu& gpu() { return gpu_; }
  fakecuda::Peer& owner() { return *owner_; }
  IpcHandle& handle() { return handle_; }
  const std::shared_ptr<DeviceContext>& context() { return context_; }

 private:
  FakeGpu gpu_;
  std::shared_ptr<DeviceContext> context_;
  std::unique_ptr<fakecuda::Peer> owner_;
  IpcHandle handle_{};
};

TEST_CASE("an imported region has its owner's bytes, also when the owner is gone") {
  Import import;
  const auto region = import.Open();
  REQUIRE(region.ok());
  CHECK((*region)->size_bytes() == kSize);
  REQUIRE(import.owner().Poke(7, 77) == 0);
  CHECK(import.ByteAt((*region)->base() + 7) == 77);
  import.owner().Kill();
  CHECK(import.ByteAt((*region)->base() + 7) == 77);
}

TEST_CASE("a region imported twice is there until both are closed") {
  Import import;
  auto first = import.Open();
  auto second = import.Open();
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK((*first)->base() == (*second)->base());
  first->reset();
  CHECK(fakecuda_live("import") == 1);
  CHECK(import.ByteAt((*second)->base()) == 0xA5);
  second->reset();
  CHECK(fakecuda_live("import") == 0);
}

TEST_CASE("an owner of the same pid is a collision of pids, and said to be") {
  Import import({"FAKECUDA_PID=" + std::to_string(getpid())});
  CheckRefused(import.Open().status(), absl::StatusCode::kFailedPrecondition, Reason::kPidCollision,
               {"cuIpcOpenMemHandle: CUDA_ERROR_INVALID_CONTEXT (201)", "same pid"});
}

TEST_CASE("an owner that is gone or has freed the region is said to be") {
  Import import;
  if (GENERATE(false, true)) {
    import.owner().Kill();
  } else {
    REQUIRE(import.owner().Do("free") == 0);
  }
  CheckRefused(import.Open().status(), absl::StatusCode::kFailedPrecondition, Reason::kDevice,
               {"CUDA_ERROR_INVALID_HANDLE (400)", "open a new session"});
}

TEST_CASE("a damaged handle is refused") {
  Import import;
  import.handle().bytes[0] ^= 1;
  CheckRefused(import.Open().status(), absl::StatusCode::kFailedPrecondition, Reason::kDevice,
               {"CUDA_ERROR_INVALID_VALUE (1)", "damaged"});
}

TEST_CASE("a handle of another length than 64 bytes is an invalid argument") {
  Import import;
  const std::vector<std::byte> handle(63);
  CHECK(ImportedRegion::Open(import.context(), handle, kSize).status().code() ==
        absl::StatusCode::kInvalidArgument);
}

TEST_CASE("a region that is smaller than it should be is refused and closed") {
  Import import;
  CheckRefused(import.Open(kSize + 1).status(), absl::StatusCode::kFailedPrecondition,
               Reason::kDevice, {"2097152 bytes where 2097153 are expected"});
  CHECK(fakecuda_live("import") == 0);
}

TEST_CASE("a region on another device is refused with what to use instead") {
  Import import;
  const std::string result = GENERATE("205", "217", "711");
  fakecuda_set("FAKECUDA_FAIL", ("cuIpcOpenMemHandle:0:" + result).c_str());
  CheckRefused(import.Open().status(), absl::StatusCode::kFailedPrecondition, Reason::kDevice,
               {result.c_str(), "the device of its UUID"});
}

TEST_CASE("a region that another context of the process has is refused with why") {
  Import import;
  fakecuda_set("FAKECUDA_FAIL", "cuIpcOpenMemHandle:0:208");
  CheckRefused(import.Open().status(), absl::StatusCode::kFailedPrecondition, Reason::kDevice,
               {"(208)", "primary context"});
}

TEST_CASE("a device that is lost cannot import") {
  Import import;
  fakecuda_set("FAKECUDA_FAIL", "cuIpcOpenMemHandle:1:700");
  CheckRefused(import.Open().status(), absl::StatusCode::kFailedPrecondition, Reason::kDeviceFailed,
               {"(700)"});
  CHECK_FALSE(import.context()->health().ok());
}

}  // namespace
}  // namespace kvpool::cuda
