#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include <google/protobuf/message.h>

#include "kvpool/v1/layout.pb.h"

namespace kvpool::cli {

// The proto's JSON of `message`, with its zeros, on several lines, newline at the end.
std::string ToJson(const google::protobuf::Message& message);

// The same on one line, without its zeros.
std::string ToJsonLine(const google::protobuf::Message& message);

// Reads a PoolSpec: JSON, or '@' and the path of a file of at most 1 MiB that holds it. A usage
// error, of one line, where it cannot be read; whether the spec is right is not judged here.
absl::StatusOr<v1::PoolSpec> ReadSpec(absl::string_view text);

}  // namespace kvpool::cli
