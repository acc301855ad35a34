#pragma once

#include <memory>
#include <string>

#include "client/transport.h"
#include "core/ids.h"

namespace kvpool::client {

// A transport over gRPC to `socket` ("unix:" and a path), with its fd socket beside it. Connects
// when first used and again after a break.
std::shared_ptr<Transport> MakeGrpcTransport(const std::string& socket, Duration ping_interval,
                                             Duration ping_timeout);

}  // namespace kvpool::client
