#include <string>

#include "grpc/health/v1/health.pb.h"

#include "kvpool/v1/inspect.pb.h"
#include "tests/support/catch.h"
#include "tests/unit/cli/run_cli.h"

namespace kvpool::cli {
namespace {

using test::CliFixture;
using test::CliResult;

v1::GetDaemonResponse Daemon() {
  v1::GetDaemonResponse daemon;
  daemon.set_version("0.1.0");
  daemon.set_daemon_epoch("e1");
  daemon.mutable_start_time()->set_seconds(absl::ToUnixSeconds(test::Now()) - 3700);
  daemon.add_devices()->set_kind(v1::DEVICE_KIND_HOST);
  daemon.add_eviction_policies("leaf_lru");
  daemon.set_block_tracing(true);
  daemon.set_reclaim_proof(v1::RECLAIM_PROOF_PIDFD);
  daemon.add_warnings("the memory limit is close");
  return daemon;
}

TEST_CASE("status shows the daemon and a line for each pool") {
  CliFixture fixture;
  fixture.daemon.Answer("GetDaemon", Daemon());
  v1::ListPoolsResponse pools;
  v1::PoolStatus& pool = *pools.add_pools();
  pool.mutable_layout()->mutable_spec()->set_name("llama");
  pool.mutable_layout()->mutable_spec()->add_devices("host");
  pool.mutable_layout()->set_num_blocks(8);
  pool.mutable_layout()->set_block_bytes(2048);
  pool.mutable_layout()->set_shard_bytes(16'384);
  pool.set_free_blocks(3);
  pool.set_cached_blocks(1);
  pool.set_held_blocks(2);
  pool.set_quarantined_blocks(2);
  pool.set_sessions(5);
  pool.set_waiting_calls(6);
  pool.add_devices()->set_kind(v1::DEVICE_KIND_HOST);
  fixture.daemon.Answer("ListPools", pools);

  const CliResult result = fixture.Run({"status"});
  CHECK(result.code == ExitCode::kOk);
  CHECK(result.errors.empty());
  CHECK(result.out ==
        "version            0.1.0\n"
        "epoch              e1\n"
        "started            2026-01-31T10:58:20Z (1h1m ago)\n"
        "state              serving\n"
        "devices            host\n"
        "eviction policies  leaf_lru\n"
        "block tracing      on\n"
        "reclaim proof      pidfd\n"
        "warning            the memory limit is close\n"
        "\n"
        "POOL   BLOCKS  FREE  CACHED  HELD  QUARANTINED  SESSIONS  WAITING  BLOCK SIZE  MEMORY"
        "  DEVICES  STATE\n"
        "llama       8     3       1     2            2         5        6       2 KiB  16 KiB"
        "  host     ok\n");
}

TEST_CASE("status as JSON is what GetDaemon answers, and asks for nothing else") {
  CliFixture fixture;
  fixture.daemon.Answer("GetDaemon", Daemon());
  const CliResult result = fixture.Run({"status", "--json"});
  CHECK(result.code == ExitCode::kOk);
  CHECK(result.out.find("\"daemonEpoch\": \"e1\"") != std::string::npos);
  CHECK(result.out.find("\"draining\": false") != std::string::npos);
}

TEST_CASE("health exits with 0 only where the daemon serves") {
  using Health = grpc::health::v1::HealthCheckResponse;
  CliFixture fixture;
  Health response;
  response.set_status(Health::SERVING);
  fixture.daemon.Answer("Check", response);
  CHECK(fixture.Run({"health"}).code == ExitCode::kOk);
  CHECK(fixture.Run({"health"}).out == "SERVING\n");

  response.set_status(Health::NOT_SERVING);
  fixture.daemon.Answer("Check", response);
  CHECK(fixture.Run({"health"}).code == ExitCode::kRefused);
  CHECK(fixture.Run({"health"}).out == "NOT_SERVING\n");
  CHECK(fixture.Run({"health", "--json"}).code == ExitCode::kRefused);
  CHECK(fixture.Run({"health", "--json"}).out.find("\"status\": \"NOT_SERVING\"") !=
        std::string::npos);

  fixture.daemon.Fail("Check", absl::StatusCode::kNotFound, Reason::kUnspecified, "no service");
  CHECK(fixture.Run({"health"}).code == ExitCode::kRefused);
}

}  // namespace
}  // namespace kvpool::cli
