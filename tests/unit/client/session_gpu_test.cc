// A session's mappings of memory on GPUs.
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "client/session.h"
#include "client/visible_gpus.h"
#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/unit/client/gpu_fixture.h"

namespace kvpool::client {
namespace {

TEST_CASE("A shard on a GPU is opened as the daemon told, and mapped where that is") {
  GpuFixture fixture;
  const auto session = fixture.Open();
  const auto mapping = session->Map(1);
  REQUIRE(mapping.ok());
  CHECK(mapping->is_on_gpu());
  CHECK(mapping->device_ordinal() == 1);
  CHECK(mapping->shard() == 1);
  const uint64_t offset_bytes = session->layout().layers[1].k.offset_bytes;
  CHECK(reinterpret_cast<uint64_t>(mapping->k_ptr(1)) == test::FakeGpus::kBase + offset_bytes);

  REQUIRE(fixture.gpus.requests().size() == 1);
  const ImportRequest request = fixture.gpus.requests()[0];
  CHECK(request.daemon_epoch == kEpoch);
  CHECK(request.region_id == test::FakeDaemon::kFirstRegionId + 1);
  CHECK(request.device_uuid == kSecondGpu);
  CHECK(request.size_bytes == session->layout().shard_bytes);
  CHECK(fixture.gpus.handles()[0] == std::vector<std::byte>(64, std::byte{'b'}));
  CHECK(fixture.daemon().RequestedRegions().empty());
}

TEST_CASE("Mappings of one shard share what is open, until the last of them ends") {
  GpuFixture fixture;
  auto session = fixture.Open();
  auto first = session->Map();
  auto second = session->Map(0, Mapping::Access::kReadOnly);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(first->k_ptr(0) == second->k_ptr(0));
  CHECK(second->access() == Mapping::Access::kReadOnly);
  CHECK(fixture.gpus.requests().size() == 1);

  session.reset();
  const uint64_t region = test::FakeDaemon::kFirstRegionId;
  { const Mapping ended = *std::move(first); }
  CHECK(fixture.gpus.is_open(kEpoch, region));
  { const Mapping ended = *std::move(second); }
  CHECK_FALSE(fixture.gpus.is_open(kEpoch, region));
}

TEST_CASE("A region on a GPU that is smaller than its layout is refused and closed") {
  GpuFixture fixture({kFirstGpu}, [](v1::OpenSessionResponse& response) {
    MoveToGpus(response);
    for (v1::MemoryRegion& region : *response.mutable_regions()) region.set_size_bytes(4096);
  });
  CHECK(absl::IsFailedPrecondition(fixture.Open()->Map().status()));
  CHECK(fixture.gpus.requests().size() == 1);
  CHECK_FALSE(fixture.gpus.is_open(kEpoch, test::FakeDaemon::kFirstRegionId));
}

TEST_CASE("What keeps a GPU's memory from being opened is told as it is") {
  GpuFixture fixture;
  const auto session = fixture.Open();
  fixture.gpus.Refuse(MakeError(absl::StatusCode::kFailedPrecondition,
                                {.reason = Reason::kPidCollision}, "the same pid"));
  CHECK(GetErrorDetail(session->Map().status()).reason == Reason::kPidCollision);
  CHECK(session->alive());
}

TEST_CASE("A session that has ended maps no GPU's memory") {
  GpuFixture fixture;
  const auto session = fixture.Open();
  REQUIRE(session->Close().ok());
  CHECK(absl::IsNotFound(session->Map().status()));
  CHECK(fixture.gpus.requests().empty());
}

TEST_CASE("An answer that makes no sense of a shard's memory is INTERNAL, news UNIMPLEMENTED") {
  std::function<void(v1::MemoryRegion&)> edit;
  absl::StatusCode code = absl::StatusCode::kInternal;
  SECTION("no handle") {
    edit = [](v1::MemoryRegion& region) { region.clear_handle(); };
  }
  SECTION("a handle of another length") {
    edit = [](v1::MemoryRegion& region) { region.set_cuda_ipc("short"); };
  }
  SECTION("a CUDA handle of the host's") {
    edit = [](v1::MemoryRegion& region) {
      region.mutable_device()->set_kind(v1::DEVICE_KIND_HOST);
    };
  }
  SECTION("a CUDA handle of no device") {
    edit = [](v1::MemoryRegion& region) { region.mutable_device()->clear_uuid(); };
  }
  SECTION("a kind of device that is not known here") {
    code = absl::StatusCode::kUnimplemented;
    edit = [](v1::MemoryRegion& region) {
      region.clear_handle();
      region.mutable_device()->set_kind(static_cast<v1::DeviceKind>(77));
    };
  }
  GpuFixture fixture({kFirstGpu}, [&](v1::OpenSessionResponse& response) {
    MoveToGpus(response);
    for (v1::MemoryRegion& region : *response.mutable_regions()) edit(region);
  });
  CHECK(fixture.Open()->Map().status().code() == code);
  CHECK(fixture.gpus.requests().empty());
}

TEST_CASE("The daemon is told which GPUs a process sees, where the process tells") {
  GpuFixture fixture;
  const auto silent = fixture.Open();
  CHECK(fixture.daemon().LastOpen().device_uuids().empty());
  const auto telling = fixture.Open({.device_uuids = {kSecondGpu, kFirstGpu}});
  REQUIRE(fixture.daemon().LastOpen().device_uuids_size() == 2);
  CHECK(fixture.daemon().LastOpen().device_uuids(0) == kSecondGpu);
  CHECK(fixture.daemon().LastOpen().device_uuids(1) == kFirstGpu);
  CHECK(absl::IsInvalidArgument(
      fixture.base.client.OpenSession({.pool = "p", .device_uuids = {"\xFF"}}).status()));
}

// In one test, since a process has one driver.
TEST_CASE("VisibleGpus says what is missing, and looks again") {
  const test::TempDir directory;
  const std::string library = directory.File("libcuda.so");
  REQUIRE(setenv("KVPOOL_LIBCUDA", library.c_str(), /*overwrite=*/1) == 0);
  const absl::Status missing = VisibleGpus().status();
  CHECK(absl::IsFailedPrecondition(missing));
  CHECK(GetErrorDetail(missing).reason == Reason::kDevice);
#ifdef KVPOOL_FAKE_LIBCUDA
  std::filesystem::create_symlink(KVPOOL_FAKE_LIBCUDA, library);
  const auto gpus = VisibleGpus();
  REQUIRE(gpus.ok());
  REQUIRE(gpus->size() == 1);
  CHECK(gpus->front().starts_with("GPU-"));
#endif
}

}  // namespace
}  // namespace kvpool::client
