#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include <grpcpp/support/status.h>

#include "kvpool/internal/status.pb.h"
#include "kvpool/v1/block.pb.h"

namespace kvpool::server {

// The most bytes of an error's message that go on the wire. It goes twice, as trailing metadata:
// percent-encoded (at most 3 bytes for one) and in the details, in base64. 3 x 1024 + 1.4 x 1024
// stays well under the 8 KiB that gRPC takes of metadata.
inline constexpr size_t kMaxErrorMessageBytes = 1024;

// The detail that `status` carries, all zero where it carries none.
v1::ErrorDetail ToErrorDetail(const absl::Status& status);

// `status` as it goes on the wire: the code by the number that it has everywhere, and as details
// one `kvpool.v1.ErrorDetail`, all zero where `status` has none. Requires that it is not OK.
internal::Status ToWireStatus(const absl::Status& status);

// `status` as gRPC sends it: codes map one to one, and the details are a serialized ToWireStatus.
// OK has no details.
grpc::Status ToGrpcStatus(const absl::Status& status);

// `message` as one line of valid UTF-8 of at most kMaxErrorMessageBytes: control characters and
// bytes that are not UTF-8 become '?', and what is too long is cut between characters and ends
// in "...".
std::string SafeMessage(absl::string_view message);

}  // namespace kvpool::server
