#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "core/ids.h"

namespace kvpool::server {

// What the daemon takes of everything, beside LedgerLimits. Each is an error at its edge.

// Of a config file: a thousand pools with a dozen overrides each fit.
inline constexpr size_t kMaxConfigBytes = 1 << 20;

// Of a unix socket's path: sun_path's 108, less ".fd" and the closing NUL.
inline constexpr size_t kMaxSocketPathBytes = 104;

// Of a name in the config that shows in listings, as `OpenSessionRequest.client_name`.
inline constexpr size_t kMaxNameBytes = 63;

// Of one gRPC message, received: 1,048,576 tokens (65,536 blocks of 16) at up to 5 bytes each are
// 5 MiB; 65,536 ids and generations are 983,040 bytes (5 and 10 each).
inline constexpr uint32_t kMaxMessageBytes = 8 << 20;

// Of one prefix: enough for max_blocks_per_call blocks of 16.
inline constexpr uint32_t kMaxTokensPerCall = 1U << 20;

// Connections of one gRPC listener, further ones are turned away. Each takes two descriptors, and
// one for its process.
inline constexpr size_t kMaxConnections = 2048;
inline constexpr size_t kFdsPerConnection = 3;

// One process may have this part of what all may: of a listener's connections, of the memory for
// calls. (LedgerLimits says how many of a pool's sessions.)
inline constexpr size_t kProcessShare = 8;

// Connections of one fd socket; one more ends another of who has most. Each lives for a few
// packets.
inline constexpr size_t kMaxFdConnections = 256;

// Connections that each listener must be able to have, of both kinds, for the daemon to start.
inline constexpr size_t kMinConnections = 8;

// Of one `RegionFdRequest`, and how long a connection of the fd socket may be silent.
inline constexpr size_t kMaxFdRequestBytes = 512;
inline constexpr Duration kMaxFdSilence = std::chrono::seconds(10);

// Calls at once on one connection. A worker's waiting calls count.
inline constexpr int kMaxConcurrentStreams = 1024;

// What requests and unread answers may hold, of a process's calls in progress and of all: some 25
// of the longest requests that wait, or 128 streams that are not read; and 8 processes such.
inline constexpr size_t kMaxProcessCallBytes = 256 << 20;
inline constexpr size_t kMaxCallBytes = kProcessShare * kMaxProcessCallBytes;

// Threads for gRPC's synchronous services: reflection, a thread a stream.
inline constexpr int kMaxReflectionThreads = 8;

// What gRPC may keep for bytes on their way in before it slows its peers down: 32 of the longest
// messages beside thousands of short ones.
inline constexpr size_t kMaxGrpcBytes = 512 << 20;

// Descriptors that are neither a connection's nor its process's, nor a region's of the config's
// pools: sockets, logs, gRPC, regions of pools made later.
inline constexpr size_t kSpareFds = 128;

}  // namespace kvpool::server
