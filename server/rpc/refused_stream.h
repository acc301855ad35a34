#pragma once

#include "absl/status/status.h"
#include <grpcpp/support/server_callback.h>

#include "server/rpc/status_mapping.h"

namespace kvpool::server {

// A stream that is refused before it starts: ends with the status, then deletes itself. `Reactor`
// is grpc::ServerWriteReactor<...> or ServerReadReactor<...>.
template <typename Reactor>
class RefusedStream final : public Reactor {
 public:
  explicit RefusedStream(const absl::Status& status) { this->Finish(ToGrpcStatus(status)); }

 private:
  void OnDone() override { delete this; }
};

}  // namespace kvpool::server
