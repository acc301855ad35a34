// A daemon whose GPU, or whose driver, fails.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "tests/integration/support/node.h"
#include "tests/support/catch.h"

namespace kvpool::test {
namespace {

// Takes all of a pool of 16 blocks and fills every other: many pieces that lie apart, which on a
// GPU are a kernel's work.
absl::Status FillMany(RawSession& session) {
  const absl::Status taken = session.Alloc(16).status();
  if (!taken.ok()) return taken;
  v1::Blocks apart;
  for (uint32_t id = 0; id < 16; id += 2) apart.add_block_ids(id);
  return session.Fill(apart, v1::FILL_POISON);
}

TEST_CASE("A pool whose GPU fails says so to all, and a pool on the host goes on") {
  Node node({.pools_json = "[" + PoolJson("p", 16) + ", " +
                           PoolJson("h", 16, R"(, "devices": ["host"])") + "]",
             .environment = {"FAKECUDA_FAIL=cuLaunchKernel:1:700"}});
  const auto client = node.Connect();
  const auto on_gpu = Value(RawSession::Open(*client, {}));
  CHECK(node.Pool().failure().empty());
  const absl::Status failed = FillMany(*on_gpu);
  CHECK(Said(failed) == "FAILED_PRECONDITION DEVICE_FAILED");
  CHECK(absl::StrContains(failed.message(), "cuLaunchKernel"));
  CHECK(absl::StrContains(node.Pool().failure(), "cuLaunchKernel"));
  const auto refused = RawSession::Open(*client, {});
  CHECK(Said(refused) == "FAILED_PRECONDITION DEVICE_FAILED");
  CHECK(absl::StrContains(refused.status().message(), "cuLaunchKernel"));

  v1::OpenSessionRequest request;
  request.set_pool("h");
  const auto on_host = Value(RawSession::Open(*client, request));
  CHECK(Said(FillMany(*on_host)) == "OK");
  CHECK(node.Pool("h").failure().empty());
  CHECK(on_host->Close().ok());
  CHECK(on_gpu->Close().ok());
  // Nothing of the failed one is lost either: it could be deleted.
  CHECK(node.BecomeFree(16));
  node.CheckCounts();
}

TEST_CASE("A daemon without a driver does not start with a pool on a GPU, and says why") {
  DaemonProcess daemon({.pools_json = OnePool(16),
                        .environment = {"KVPOOL_LIBCUDA=/nowhere/libcuda.so.1"},
                        .wait_until_serving = false});
  CHECK(daemon.process().Wait() == 1);
  const std::string log = daemon.Log();
  CHECK(absl::StrContains(log, "no CUDA driver"));
  CHECK(absl::StrContains(log, "/nowhere/libcuda.so.1"));
}

// A daemon as in the loop over all calls, but the real one.
TEST_CASE("A daemon that a call of the driver fails starts without it, or says which it was") {
  for (const std::string call :
       {"cuInit", "cuDevicePrimaryCtxRetain", "cuMemAlloc", "cuIpcGetMemHandle", "cuMemsetD8Async",
        "cuStreamCreateWithPriority", "cuMemHostAlloc", "cuModuleLoadData"}) {
    CAPTURE(call);
    DaemonProcess daemon({.pools_json = OnePool(16),
                          .environment = {"FAKECUDA_FAIL=" + call + ":0:1"},
                          .wait_until_serving = call == "cuModuleLoadData"});
    if (call != "cuModuleLoadData") {
      CHECK(daemon.process().Wait() == 1);
      CHECK(absl::StrContains(daemon.Log(), call));
      continue;
    }
    // What kernels do is done without them.
    RawClient client(daemon.Connect(daemon.worker_socket()));
    const auto session = Value(RawSession::Open(client, {}));
    CHECK(Said(FillMany(*session)) == "OK");
    CHECK(session->Close().ok());
    CHECK(daemon.Stop() == 0);
  }
}

}  // namespace
}  // namespace kvpool::test
