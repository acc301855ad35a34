#pragma once

#include <string>

#include "absl/status/status.h"
#include <google/protobuf/any.pb.h>
#include <grpcpp/support/status.h>

namespace kvpool::client {

// An error with that code and message, and with the ErrorDetail (core/error.h) among the details,
// if there is one.
absl::Status StatusFromDetails(
    int code, const std::string& message,
    const google::protobuf::RepeatedPtrField<google::protobuf::Any>& details);

// The same code and message, and the ErrorDetail (core/error.h) that the daemon attached. Errors
// that gRPC itself makes have none.
absl::Status StatusFromGrpc(const grpc::Status& status);

}  // namespace kvpool::client
