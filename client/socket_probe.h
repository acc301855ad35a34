#pragma once

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include <grpcpp/channel.h>

#include "core/ids.h"

namespace kvpool::client {

// How long a daemon that is there may take to greet a connection, however busy the node is.
inline constexpr Duration kGreetingPatience = std::chrono::seconds(5);

// Finds out why nobody answers at `socket` ("unix:" and a path): connects to it and greets in
// HTTP/2, and waits for `patience` to be greeted. OK where it is.
//
// Errors, each with the socket and what is wrong with it: PERMISSION_DENIED; UNAVAILABLE, there is
// no such file, or no socket, nobody listens, or who does is no daemon, or hangs.
absl::Status ProbeSocket(const std::string& socket, Duration patience);

// Lets `channel`, which goes to `socket`, connect if it is not, and says as ProbeSocket why it
// cannot: at once, where connecting fails, and after `patience` (cut to kGreetingPatience) where
// nothing comes of it.
absl::Status WaitForDaemon(grpc::Channel& channel, const std::string& socket, Duration patience);

}  // namespace kvpool::client
