#include "tests/support/fake_device.h"

#include <array>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/outcome.h"

namespace kvpool::test {
namespace {

constexpr std::array<Extent, 1> kFirst{{{.offset_bytes = 0, .size_bytes = 1}}};

TEST_CASE("a held operation has no effect until it is completed, oldest first") {
  FakeDevice device;
  auto region = device.Allocate(64, "test");
  REQUIRE(region.ok());
  device.Hold();
  Outcome first;
  Outcome second;
  device.Fill(**region, kFirst, 1, first.Take());
  device.Fill(**region, kFirst, 2, second.Take());
  CHECK(device.held_count() == 2);
  CHECK(FakeDevice::Bytes(**region)[0] == std::byte{0});
  CHECK(device.CompleteOne());
  CHECK(first.ok());
  CHECK_FALSE(second.is_done());
  CHECK(FakeDevice::Bytes(**region)[0] == std::byte{1});
  device.Release();
  CHECK(second.ok());
  CHECK(FakeDevice::Bytes(**region)[0] == std::byte{2});
  CHECK_FALSE(device.CompleteOne());
  Outcome third;
  device.Fill(**region, kFirst, 3, third.Take());
  CHECK(third.ok());
}

TEST_CASE("a fake device fails what it is told to fail, once and without effect") {
  FakeDevice device;
  auto region = device.Allocate(64, "test");
  REQUIRE(region.ok());
  device.FailNextOperation(absl::DataLossError("told to"));
  Outcome failed;
  Outcome fine;
  device.Fill(**region, kFirst, 1, failed.Take());
  CHECK(failed.status() == absl::DataLossError("told to"));
  CHECK(FakeDevice::Bytes(**region)[0] == std::byte{0});
  device.Fill(**region, kFirst, 2, fine.Take());
  CHECK(fine.ok());

  device.FailNextAllocation(absl::InternalError("told to"));
  CHECK(device.Allocate(64, "test").status() == absl::InternalError("told to"));
  CHECK(device.Allocate(64, "test").ok());
}

TEST_CASE("a held operation can be failed, and ends with the device") {
  Outcome failed;
  Outcome cancelled;
  {
    FakeDevice device;
    auto region = device.Allocate(64, "test");
    REQUIRE(region.ok());
    device.Hold();
    device.Fill(**region, kFirst, 1, failed.Take());
    device.Fill(**region, kFirst, 2, cancelled.Take());
    CHECK(device.FailOne(absl::DataLossError("told to")));
    CHECK(failed.status() == absl::DataLossError("told to"));
    CHECK_FALSE(cancelled.is_done());
  }
  CHECK(cancelled.status().code() == absl::StatusCode::kCancelled);
}

TEST_CASE("a fake device has as much memory as it is told, and regions give theirs back") {
  FakeDevice device(100);
  {
    auto region = device.Allocate(60, "test");
    REQUIRE(region.ok());
    CHECK(device.allocated_bytes() == 60);
    CHECK(device.QueryMemory().value().free_bytes == 40);
    CHECK(device.Allocate(41, "test").status().code() == absl::StatusCode::kResourceExhausted);
    CHECK(device.Allocate(0, "test").status().code() == absl::StatusCode::kInvalidArgument);
  }
  CHECK(device.allocated_bytes() == 0);
}

}  // namespace
}  // namespace kvpool::test
