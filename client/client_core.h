#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "client/fork_guard.h"
#include "client/options.h"
#include "client/retrier.h"
#include "client/runtime.h"
#include "client/transport.h"

namespace kvpool::client {

// What a client and its sessions share. Thread-safe; held by MakeForkSafe pointers, so that a
// forked child leaves the connection alone.
struct ClientCore {
  ClientCore(ClientOptions client_options, std::shared_ptr<Transport> client_transport)
      : options(std::move(client_options)),
        transport(std::move(client_transport)),
        runtime(options.runtime != nullptr ? *options.runtime : ProcessRuntime()),
        retrier(options.retry, options.clock, options.sleep, runtime.Random()) {}

  const ForkGuard fork_guard;
  const ClientOptions options;
  const std::shared_ptr<Transport> transport;
  Runtime& runtime;
  Retrier retrier;
  std::atomic<bool> has_met_daemon = false;  // Somebody answered, if only to refuse.
};

}  // namespace kvpool::client
