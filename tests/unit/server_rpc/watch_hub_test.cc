#include "server/rpc/watch_hub.h"

#include <memory>
#include <vector>

#include "core/error.h"
#include "tests/support/catch.h"

namespace kvpool::server {
namespace {

constexpr TimePoint kStart{std::chrono::seconds(1'000)};

class Sink final : public WatchSink {
 public:
  void Beat() override { ++beats; }
  void End(const absl::Status& status) override { end = status; }

  int beats = 0;
  absl::Status end;
};

void CheckLimit(const absl::Status& status) {
  CHECK(absl::IsResourceExhausted(status));
  CHECK(ReasonName(GetErrorDetail(status).reason) == ReasonName(Reason::kLimit));
}

TEST_CASE("A hub beats for all streams, not sooner than the interval") {
  WatchHub hub;
  const auto first = std::make_shared<Sink>();
  const auto second = std::make_shared<Sink>();
  REQUIRE(hub.Add(first, ProcessId{1}).ok());
  hub.Tick(kStart);
  REQUIRE(hub.Add(second, ProcessId{1}).ok());
  hub.Tick(kStart + kHeartbeatInterval - Duration(1));
  CHECK(second->beats == 0);
  hub.Tick(kStart + kHeartbeatInterval);
  CHECK(first->beats == 2);
  CHECK(second->beats == 1);
  hub.Remove(first.get());
  hub.Tick(kStart + 2 * kHeartbeatInterval);
  CHECK(first->beats == 2);
  CHECK(second->beats == 2);
}

TEST_CASE("A hub ends the streams that there are") {
  WatchHub hub;
  const auto gone = std::make_shared<Sink>();
  const auto there = std::make_shared<Sink>();
  REQUIRE(hub.Add(gone, ProcessId{1}).ok());
  REQUIRE(hub.Add(there, ProcessId{1}).ok());
  hub.Remove(gone.get());
  hub.EndAll(absl::UnavailableError("over"));
  CHECK(gone->end.ok());
  CHECK(absl::IsUnavailable(there->end));
}

TEST_CASE("A process has so many streams, and may have another when one has gone") {
  WatchHub hub;
  std::vector<std::shared_ptr<Sink>> sinks;
  for (size_t i = 0; i < kMaxProcessWatches; ++i) {
    sinks.push_back(std::make_shared<Sink>());
    REQUIRE(hub.Add(sinks.back(), ProcessId{1}).ok());
  }
  const auto more = std::make_shared<Sink>();
  CheckLimit(hub.Add(more, ProcessId{1}));
  CHECK(hub.Add(more, ProcessId{2}).ok());
  hub.Remove(sinks.front().get());
  CHECK(hub.Add(std::make_shared<Sink>(), ProcessId{1}).ok());
}

TEST_CASE("All processes together have so many streams") {
  WatchHub hub;
  std::vector<std::shared_ptr<Sink>> sinks;
  for (size_t i = 0; i < kMaxWatches; ++i) {
    sinks.push_back(std::make_shared<Sink>());
    REQUIRE(hub.Add(sinks.back(), ProcessId{i / 2}).ok());
  }
  CHECK(hub.size() == kMaxWatches);
  CheckLimit(hub.Add(std::make_shared<Sink>(), ProcessId{kMaxWatches}));
}

}  // namespace
}  // namespace kvpool::server
