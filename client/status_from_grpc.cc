#include "client/status_from_grpc.h"

#include "core/error.h"
#include "kvpool/internal/status.pb.h"
#include "kvpool/v1/block.pb.h"

namespace kvpool::client {

absl::Status StatusFromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  internal::Status rich;
  if (rich.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& any : rich.details()) {
      v1::ErrorDetail detail;
      if (!any.UnpackTo(&detail)) continue;
      return MakeError(code,
                       {.reason = static_cast<Reason>(detail.reason()),
                        .index = detail.index(),
                        .block_id = detail.block_id(),
                        .available = detail.available()},
                       status.error_message());
    }
  }
  return absl::Status(code, status.error_message());
}

}  // namespace kvpool::client
