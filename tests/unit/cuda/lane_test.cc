#include "core/device/cuda/lane.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/support/eventually.h"
#include "tests/unit/cuda/fixture.h"
#include "tests/unit/cuda/says.h"

namespace kvpool::cuda {
namespace {

// A lane of the fake GPU, without a device around it.
class FakeLane {
 public:
  FakeLane() {
    auto context =
        DeviceContext::Retain(gpu_.driver(), FindDevice(*gpu_.driver(), "cuda:0").value());
    REQUIRE(context.ok());
    auto lane = Lane::Create(*context, /*kernels=*/nullptr, "test");
    REQUIRE(lane.ok());
    lane_ = *std::move(lane);
  }

  Lane& lane() { return *lane_; }
  absl::Status Do(Lane::Work work) {
    Ending ending;
    lane_->Post(std::move(work), ending.Take());
    return ending.Wait();
  }

 private:
  FakeGpu gpu_;
  std::unique_ptr<Lane> lane_;
};

TEST_CASE("a lane does its work in order, with the context current") {
  FakeLane fake;
  std::vector<int> order;
  std::vector<Ending> endings(3);
  for (int i = 0; i < 3; ++i) {
    fake.lane().Post(
        [&order, i](Lane& lane) {
          order.push_back(i);
          size_t free = 0;
          size_t total = 0;
          return lane.Check(lane.api().cuMemGetInfo(&free, &total), "cuMemGetInfo");
        },
        endings[static_cast<size_t>(i)].Take());
  }
  for (Ending& ending : endings) CHECK(ending.Wait().ok());
  CHECK(order == std::vector<int>{0, 1, 2});
}

TEST_CASE("work ends with its own error, and else with that of its stream") {
  FakeLane fake;
  CHECK(fake.Do([](Lane&) { return absl::AbortedError("mine"); }).message() == "mine");
  fakecuda_set("FAKECUDA_FAIL", "cuStreamSynchronize:2:1");
  CheckRefused(fake.Do([](Lane&) { return absl::OkStatus(); }), absl::StatusCode::kInternal,
               Reason::kDevice, {"cuStreamSynchronize", "(1)"});
  CHECK(fake.Do([](Lane&) { return absl::AbortedError("mine"); }).message() == "mine");
}

TEST_CASE("work whose end was not told is over before it is said to be") {
  FakeLane fake;
  fakecuda_hold();
  const uint64_t waits = fakecuda_calls("cuStreamSynchronize");
  fakecuda_set("FAKECUDA_FAIL", absl::StrCat("cuStreamSynchronize:", waits + 1, ":1").c_str());
  Ending ending;
  fake.lane().Post(
      [](Lane& lane) -> absl::Status {
        const auto half = lane.staging().Next();
        return half.ok() ? lane.staging().Use(**half, lane.stream()) : half.status();
      },
      ending.Take());
  CHECK(test::Eventually([&] { return fakecuda_calls("cuStreamSynchronize") >= waits + 2; }));
  CHECK_FALSE(ending.is_over());
  fakecuda_release();
  CheckRefused(ending.Wait(), absl::StatusCode::kInternal, Reason::kDevice,
               {"cuStreamSynchronize", "(1)"});
  CHECK(fake.lane().context().health().ok());
}

TEST_CASE("a context whose work cannot be waited for is given up") {
  FakeLane fake;
  fakecuda_set("FAKECUDA_FAIL", "cuStreamSynchronize:0:1");
  CHECK_FALSE(fake.Do([](Lane&) { return absl::OkStatus(); }).ok());
  CheckRefused(fake.Do([](Lane&) { return absl::OkStatus(); }),
               absl::StatusCode::kFailedPrecondition, Reason::kDeviceFailed,
               {"cuStreamSynchronize", "it is not known what the device still does"});
}

TEST_CASE("work of a context that has failed is not done") {
  FakeLane fake;
  fakecuda_set("FAKECUDA_FAIL", "cuStreamSynchronize:1:719");
  CHECK_FALSE(fake.Do([](Lane&) { return absl::OkStatus(); }).ok());
  bool is_done = false;
  CheckRefused(fake.Do([&](Lane&) {
    is_done = true;
    return absl::OkStatus();
  }),
               absl::StatusCode::kFailedPrecondition, Reason::kDeviceFailed, {"(719)"});
  CHECK_FALSE(is_done);
}

TEST_CASE("a lane whose thread cannot have the context ends work with why, and asks again for it") {
  FakeGpu gpu;
  auto context = DeviceContext::Retain(gpu.driver(), FindDevice(*gpu.driver(), "cuda:0").value());
  REQUIRE(context.ok());
  // The first push is the maker's, the second the thread's, the third for the first work.
  const uint64_t calls = fakecuda_calls("cuCtxPushCurrent");
  fakecuda_set("FAKECUDA_FAIL", absl::StrCat("cuCtxPushCurrent:", calls + 2,
                                             ":201,cuCtxPushCurrent:", calls + 3, ":201")
                                    .c_str());
  auto lane = Lane::Create(*context, nullptr, "test");
  REQUIRE(lane.ok());
  Ending first;
  (*lane)->Post([](Lane&) { return absl::OkStatus(); }, first.Take());
  CheckRefused(first.Wait(), absl::StatusCode::kInternal, Reason::kDevice,
               {"cuCtxPushCurrent: CUDA_ERROR_INVALID_CONTEXT (201)"});
  Ending second;
  (*lane)->Post([](Lane&) { return absl::OkStatus(); }, second.Take());
  CHECK(second.Wait().ok());
}

TEST_CASE("half of the staging memory is given again only when the device is done with it") {
  FakeLane fake;
  const absl::Status status = fake.Do([](Lane& lane) -> absl::Status {
    const auto first = lane.staging().Next();
    const auto second = lane.staging().Next();
    const auto third = lane.staging().Next();
    if (!first.ok() || !second.ok() || !third.ok()) return absl::InternalError("no half");
    if (*first == *second || *first != *third) return absl::InternalError("not in turn");
    return lane.staging().Use(**first, lane.stream());
  });
  CHECK(status.ok());
  Ending ending;
  fakecuda_hold();
  const uint64_t waits = fakecuda_calls("cuEventSynchronize");
  fake.lane().Post(
      [&](Lane& lane) -> absl::Status {
        const auto half = lane.staging().Next();
        if (!half.ok()) return half.status();
        const absl::Status used = lane.staging().Use(**half, lane.stream());
        if (!used.ok()) return used;
        return lane.staging().Await(**half);
      },
      ending.Take());
  CHECK(test::Eventually([&] { return fakecuda_calls("cuEventSynchronize") >= waits + 2; }));
  CHECK_FALSE(ending.is_over());
  fakecuda_release();
  CHECK(ending.Wait().ok());
}

}  // namespace
}  // namespace kvpool::cuda
