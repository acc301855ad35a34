#include "client/status_from_grpc.h"

#include "core/error.h"
#include "kvpool/internal/status.pb.h"
#include "kvpool/v1/block.pb.h"

namespace kvpool::client {

absl::Status StatusFromDetails(
    int code, const std::string& message,
    const google::protobuf::RepeatedPtrField<google::protobuf::Any>& details) {
  for (const google::protobuf::Any& any : details) {
    v1::ErrorDetail detail;
    if (!any.UnpackTo(&detail)) continue;
    return MakeError(static_cast<absl::StatusCode>(code),
                     {.reason = static_cast<Reason>(detail.reason()),
                      .index = detail.index(),
                      .block_id = detail.block_id(),
                      .available = detail.available()},
                     message);
  }
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

absl::Status StatusFromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  internal::Status rich;
  if (!rich.ParseFromString(status.error_details())) rich.Clear();
  return StatusFromDetails(status.error_code(), status.error_message(), rich.details());
}

}  // namespace kvpool::client
