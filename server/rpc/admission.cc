#include "server/rpc/admission.h"

#include <string>

#include "absl/strings/str_cat.h"

#include "core/status_macros.h"

namespace kvpool::server {
namespace {

absl::string_view RoleName(v1::Role role) {
  switch (role) {
    case v1::ROLE_WORKER:
      return "worker";
    case v1::ROLE_INSPECTOR:
      return "inspector";
    case v1::ROLE_OPERATOR:
      return "operator";
    default:
      return "unspecified";
  }
}

absl::string_view AccessName(Access access) {
  switch (access) {
    case Access::kBlocks:
      return "use blocks";
    case Access::kInspect:
      return "inspect";
    case Access::kContent:
      return "see checksums";
    case Access::kAdmin:
      return "change what the daemon serves";
  }
  return "";
}

bool IsAllowed(v1::Role role, Access access) {
  switch (role) {
    case v1::ROLE_WORKER:
      return access == Access::kBlocks || access == Access::kInspect;
    case v1::ROLE_INSPECTOR:
      return access == Access::kInspect;
    case v1::ROLE_OPERATOR:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::Status CheckRole(v1::Role role, Access access) {
  if (IsAllowed(role, access)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("the role of this socket is ", RoleName(role),
                                                  ", which may not ", AccessName(access),
                                                  "; ask on a socket that may"));
}

absl::StatusOr<std::shared_ptr<const Peer>> Admit(const PeerTable& peers,
                                                  const grpc::ServerContextBase& context,
                                                  Access access) {
  std::shared_ptr<const Peer> peer = peers.Find(context.peer());
  if (peer == nullptr) {
    return absl::PermissionDeniedError("the peer of this connection is not known (any more)");
  }
  KVPOOL_RETURN_IF_ERROR(CheckRole(peer->role, access));
  return peer;
}

absl::StatusOr<CallMemory> TakeCallMemory(const ServiceContext& context, const Peer& peer,
                                          size_t bytes) {
  MemoryBudget* const all = peer.role == v1::ROLE_OPERATOR ? nullptr : &context.call_memory;
  return CallMemory::Take(all, peer.process, bytes);
}

absl::StatusOr<AdmittedCall> AdmitCall(const ServiceContext& context,
                                       const grpc::ServerContextBase& call, Access access,
                                       const google::protobuf::Message& request,
                                       size_t answer_bytes) {
  const size_t request_bytes = RequestBytes(request);
  const auto admit = [&]() -> absl::StatusOr<AdmittedCall> {
    AdmittedCall admitted;
    KVPOOL_ASSIGN_OR_RETURN(admitted.peer, Admit(context.peers, call, access));
    if (request_bytes + answer_bytes > kUncountedCallBytes) {
      KVPOOL_ASSIGN_OR_RETURN(
          admitted.memory, TakeCallMemory(context, *admitted.peer, request_bytes + answer_bytes));
    }
    return admitted;
  };
  absl::StatusOr<AdmittedCall> admitted = admit();
  if (!admitted.ok() && request_bytes > 0) DropRequest(request);
  return admitted;
}

}  // namespace kvpool::server
