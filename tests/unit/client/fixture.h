#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "client/client.h"
#include "core/check.h"
#include "tests/support/fake_daemon.h"
#include "tests/support/temp_dir.h"

namespace kvpool::client {

// Waits that make a failing test end soon; no test that passes waits that long.
inline RetryPolicy QuickRetry() {
  return {.attempt_timeout = std::chrono::seconds(10),
          .total_timeout = std::chrono::seconds(20),
          .initial_backoff = std::chrono::milliseconds(1),
          .max_backoff = std::chrono::milliseconds(10)};
}

// A daemon and a client of it.
struct Fixture {
  explicit Fixture(test::FakeDaemon::Options options = {}, GpuImporter* gpus = nullptr)
      : daemon(directory.path().string(), std::move(options)),
        client(Client::Create({.socket = daemon.socket(), .retry = QuickRetry(), .gpus = gpus})
                   .value()) {}

  std::unique_ptr<Session> Open(SessionOptions options = {}) {
    options.pool = "p";
    auto session = client.OpenSession(std::move(options));
    KVPOOL_CHECK(session.ok());
    return *std::move(session);
  }

  test::TempDir directory;
  test::FakeDaemon daemon;
  Client client;
};

inline std::vector<BlockRef> Refs(const std::vector<BlockLease>& leases) {
  std::vector<BlockRef> refs;
  for (const BlockLease& lease : leases) refs.push_back(lease.ref());
  return refs;
}

}  // namespace kvpool::client
