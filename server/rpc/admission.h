#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include <grpcpp/server_context.h>

#include "kvpool/v1/admin.pb.h"
#include "server/peer.h"

namespace kvpool::server {

// What a method lets its caller do. Each method of ours has one.
enum class Access : uint8_t {
  kBlocks,   // BlockService: sessions and what they hold.
  kInspect,  // InspectService, but for what reveals content.
  kContent,  // Checksums: they tell what the bytes are.
  kAdmin,    // AdminService: changing what the daemon serves.
};

// What a role may do, the one place that says so. PERMISSION_DENIED, naming the role.
absl::Status CheckRole(v1::Role role, Access access);

// Who makes the call, once it is known that they may. Every handler begins with it: gRPC's
// interceptors could only replace the answer, after the handler has run.
// Errors: PERMISSION_DENIED: the connection has no peer that is known, or its role is not enough.
absl::StatusOr<std::shared_ptr<const Peer>> Admit(const PeerTable& peers,
                                                  const grpc::ServerContextBase& context,
                                                  Access access);

}  // namespace kvpool::server
