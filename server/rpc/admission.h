#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include <grpcpp/server_context.h>

#include "kvpool/v1/admin.pb.h"
#include "server/peer.h"
#include "server/rpc/call_memory.h"
#include "server/rpc/services.h"

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

// A call that may go on: whose it is, and what it takes of the memory that calls may hold.
struct AdmittedCall {
  std::shared_ptr<const Peer> peer;
  CallMemory memory;
};

// Memory for `bytes` of a call of `peer`'s. What operators' calls take is not of what all may hold:
// when others hold all of it, somebody must be able to see who, and to end them.
// Errors: as CallMemory::Take.
absl::StatusOr<CallMemory> TakeCallMemory(const ServiceContext& context, const Peer& peer,
                                          size_t bytes);

// As Admit, for a call whose answer, unread, may hold `answer_bytes`. The request of one that is
// refused is not to be looked at again.
// Errors: PERMISSION_DENIED; RESOURCE_EXHAUSTED (LIMIT): the calls in progress hold too much.
absl::StatusOr<AdmittedCall> AdmitCall(const ServiceContext& context,
                                       const grpc::ServerContextBase& call, Access access,
                                       const google::protobuf::Message& request,
                                       size_t answer_bytes);

}  // namespace kvpool::server
