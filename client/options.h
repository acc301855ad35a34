#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "core/clock.h"
#include "core/ids.h"

namespace kvpool {
class GpuImporter;
}

namespace kvpool::client {

class Runtime;
class Transport;

// How often and how long a call is tried. A call that the API lets be repeated (by its
// idempotency key, or by its nature) is tried again after UNAVAILABLE, and after an attempt that
// got no answer in time, until `total_timeout` is over or the session has ended.
struct RetryPolicy {
  // The deadline of one attempt. A call that waits for room has its `wait` on top of both.
  Duration attempt_timeout = std::chrono::seconds(5);
  Duration total_timeout = std::chrono::seconds(15);
  // The pause before the second attempt; it doubles up to `max_backoff`. Each is shortened by a
  // random part of up to a half, so that workers do not come back in step.
  Duration initial_backoff = std::chrono::milliseconds(20);
  Duration max_backoff = std::chrono::seconds(1);
};

// How a Client reaches its daemon.
struct ClientOptions {
  // "unix:" and the path of a worker's listener. Its fd socket lies beside it, at "<path>.fd".
  // Empty: where a daemon of this user's listens whose config names no sockets:
  // /run/kvpool/worker/kvpool.sock for root, else under $XDG_RUNTIME_DIR/kvpool, else under
  // /tmp/kvpool-<uid>.
  std::string socket{};
  RetryPolicy retry{};
  // What closing a session may take in all, a dead or hung daemon included.
  Duration close_timeout = std::chrono::milliseconds(800);
  // The deadline of a call that moves bytes: ReadBlocks, WriteBlocks.
  Duration transfer_timeout = std::chrono::seconds(60);
  // The connection's own pings, and how long their answers may take. Under 5 s the daemon may
  // take offence.
  Duration ping_interval = std::chrono::seconds(10);
  Duration ping_timeout = std::chrono::seconds(10);

  // Seams for simulation. (Braces, here and below, let designated initialisers leave them out.)
  // Unset: steady_clock, a wait of the runtime's, this process's threads and chance, gRPC to
  // `socket`, and this process's GPUs.
  Clock clock{};
  std::function<void(Duration)> sleep{};
  Runtime* runtime = nullptr;  // Outlives them, too.
  std::shared_ptr<Transport> transport{};
  GpuImporter* gpus = nullptr;  // Outlives the client, its sessions and their mappings.
};

// News for a session.
struct Notice {
  enum class Kind : uint8_t {
    // The daemon stops in `deadline`, and refuses what would wait.
    kDraining,
    // An operator ended the session.
    kTerminated,
    kPrefixesReset,
    // A process that had joined the session is gone.
    kMemberGone,
    // Others are short of `blocks` blocks that are held in reserve.
    kRecall,
    // The session has ended otherwise than by Close, for the reason in `message`: what was
    // computed in its blocks since is void. The last notice.
    kLost,
  };

  Kind kind{};
  std::string message{};
  Duration deadline{};
  uint32_t blocks = 0;
};

// What a session is opened with.
struct SessionOptions {
  std::string pool{};
  // For people: shown by inspection. Printable, at most 63 characters.
  std::string client_name{};
  // Where set, the session opens only if the pool's fingerprint equals it.
  std::string expected_fingerprint{};
  // How long the session may live before it is attached. 0: the daemon's default.
  Duration ttl{};
  // What computes the KV: part of every prefix key. Needed to publish, look up or acquire.
  std::string model_id{};
  // Blocks that nobody else can take.
  uint32_t guaranteed_blocks = 0;
  // The GPUs that this process sees, by UUID, as VisibleGpus() tells: where none of them is one of
  // the pool's, opening is FAILED_PRECONDITION, DEVICE. Empty: unchecked.
  std::vector<std::string> device_uuids{};
  // Join that session of another process: this one maps and touches memory on its behalf and
  // holds no references. `model_id` and `guaranteed_blocks` must then be unset.
  std::optional<SessionId> join{};

  // Called on a thread of the session's, one at a time; must not close or destroy the session.
  std::function<void(const Notice&)> on_notice{};
  // Called on a thread of the session's, maybe on two at once, when references that ended leases
  // held could not be given back, or the event of ReleaseAfter failed; they stay with the session
  // until it ends. Must not use the session. Unset: one line on stderr.
  std::function<void(std::span<const BlockRef>, const absl::Status&)> on_release_failure{};
};

// What the daemon accepts in one call.
struct Limits {
  uint32_t max_blocks_per_call = 0;
  uint32_t max_tokens_per_call = 0;
  uint32_t max_message_bytes = 0;
  Duration max_wait{};
  uint32_t max_idempotency_keys = 0;
};

}  // namespace kvpool::client
