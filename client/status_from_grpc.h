#pragma once

#include "absl/status/status.h"
#include <grpcpp/support/status.h>

namespace kvpool::client {

// The same code and message, and the ErrorDetail (core/error.h) that the daemon attached. Errors
// that gRPC itself makes have none.
absl::Status StatusFromGrpc(const grpc::Status& status);

}  // namespace kvpool::client
