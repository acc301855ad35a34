#pragma once

#include <optional>

#include "kvpool/v1/layout.pb.h"

namespace kvpool::server {

// The packets of the fd sockets. Neither call waits.

// What ReceiveRequest found.
enum class PacketState {
  kRequest,  // A packet that is a request.
  kNothing,  // None, now.
  kEnd,      // The end, or a packet that is none: too long, not a request, or with descriptors.
};

// Takes one packet off `socket`, and closes what descriptors it carries.
PacketState ReceiveRequest(int socket, v1::RegionFdRequest& request);

// Sends one packet, with `fd` unless it is absent. False where the peer does not take it now.
bool SendResponse(int socket, const v1::RegionFdResponse& response, std::optional<int> fd);

}  // namespace kvpool::server
