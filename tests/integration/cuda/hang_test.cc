// A driver that never answers: what does not need it goes on, and the daemon ends all the same.
#include <signal.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "tests/integration/support/node.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

// A call that is to have no answer before the daemon ends.
class Stuck {
 public:
  template <typename Call>
  explicit Stuck(Call call) : thread_([this, call] { status_ = call(); }) {}

  absl::Status Wait() {
    thread_.join();
    return status_;
  }

 private:
  absl::Status status_;
  std::thread thread_;
};

TEST_CASE("Pools on the host are made, served and deleted beside a driver that hangs") {
  Node node({.pools_json = "[" + PoolJson("h", 16, R"(, "devices": ["host"])") + "]",
             .environment = {"FAKECUDA_FAIL=cuInit:0:hang"}});
  RawClient* const admin = &node.eyes();
  Stuck on_gpu([admin] { return admin->CreatePool(PoolJson("g", 16)); });
  const std::string host = R"(, "devices": ["host"])";
  // Each of them may come before the one that is stuck, or after.
  for (int round = 0; round < 20; ++round) {
    REQUIRE(Said(node.eyes().CreatePool(PoolJson("p", 16, host))) == "OK");
    REQUIRE(Said(node.eyes().DeletePool("p")) == "OK");
  }
  node.daemon().process().Signal(SIGTERM);
  CHECK(node.daemon().process().Wait() == 0);
  CHECK_FALSE(on_gpu.Wait().ok());
  CHECK(absl::StrContains(node.daemon().Log(), "event=stopped during=end"));
}

TEST_CASE("A daemon ends in time though a GPU does not, and another takes its place") {
  DaemonProcess daemon({.pools_json = OnePool(16),
                        .flags = {"--drain_deadline=1s"},
                        .environment = {"FAKECUDA_FAIL=cuLaunchKernel:1:hang"}});
  const auto client = std::make_unique<RawClient>(daemon.Connect(daemon.worker_socket()));
  const auto session = Value(RawSession::Open(*client, {}));
  Value(session->Alloc(16));
  v1::Blocks apart;
  for (uint32_t id = 0; id < 16; id += 2) apart.add_block_ids(id);
  Stuck fill([&session, &apart] { return session->Fill(apart, v1::FILL_POISON); });
  daemon.process().Signal(SIGTERM);
  CHECK(daemon.process().Wait() == 0);
  CHECK_FALSE(fill.Wait().ok());
  CHECK(absl::StrContains(daemon.Log(), "event=stopped during=end"));
  daemon.Start();
  const auto next = std::make_unique<RawClient>(daemon.Connect(daemon.worker_socket()));
  CHECK(RawSession::Open(*next, {}).ok());
}

}  // namespace
}  // namespace kvpool::test
