#include <string>

#include "client/client.h"
#include "core/check.h"
#include "tests/bench/system/report.h"
#include "tests/bench/system/samples.h"
#include "tests/bench/system/scenarios.h"
#include "tests/support/daemon_process.h"

namespace kvpool::bench {
namespace {

constexpr int kRounds = 200;
constexpr double kLimitMicroseconds = 5'000;

// 80 layers of 8 heads of 128 in bf16 are 5 MiB a block of 16 tokens; 204 of them, 1 GiB.
constexpr char kPool[] =
    R"([{"name": "big", "numLayers": 80, "numKvHeads": 8, "headDim": 128, "dtype": "bf16",)"
    R"( "memoryBytes": 1073741824}])";

}  // namespace

void RunOpen() {
  test::DaemonProcess daemon({.pools_json = kPool});
  client::ClientOptions options;
  options.socket = daemon.worker_socket();
  auto client = client::Client::Create(options);
  KVPOOL_CHECK(client.ok());
  Samples samples;
  for (int round = 0; round < kRounds; ++round) {
    std::unique_ptr<client::Session> session;
    samples.Add(Time([&] {
      auto opened = client->OpenSession({.pool = "big", .client_name = "bench"});
      KVPOOL_CHECK(opened.ok());
      session = *std::move(opened);
      KVPOOL_CHECK(session->Map().ok());
    }));
  }
  Report("13", "OpenSession + mapping, 80 layers, 1 GiB, p50", Microseconds(samples.Median()),
         Microseconds(kLimitMicroseconds), samples.Median() / kLimitMicroseconds);
}

}  // namespace kvpool::bench
