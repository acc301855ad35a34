#include "server/rpc/admin_service.h"

#include <chrono>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include <spdlog/spdlog.h>

#include "core/layout/spec_check.h"
#include "core/status_macros.h"
#include "proto/convert/layout_convert.h"
#include "server/rpc/convert.h"
#include "server/rpc/inspect_convert.h"
#include "server/rpc/session_lookup.h"

namespace kvpool::server {
namespace {

// `subject` is what the caller named, so it is escaped: one line, whatever it holds.
void Audit(const char* method, absl::string_view subject, const Peer& peer,
           const absl::Status& status) {
  constexpr size_t kMaxSubject = 63;
  spdlog::info("event=admin method={} subject=\"{}\" tenant=\"{}\" pid={} uid={} code={}", method,
               absl::Utf8SafeCEscape(subject.substr(0, kMaxSubject)),
               absl::Utf8SafeCEscape(peer.tenant), peer.process->pid(), peer.process->uid(),
               absl::StatusCodeToString(status.code()));
}

}  // namespace

grpc::ServerUnaryReactor* AdminService::CreatePool(grpc::CallbackServerContext* call,
                                                   const v1::CreatePoolRequest* request,
                                                   v1::CreatePoolResponse* response) {
  return calls_.Answer(call, *request, Access::kAdmin, PlaceFor(request->spec(), Place::kCreation),
                       [this, request, response](const Peer& peer) {
                         absl::Status status = DoCreatePool(peer, *request, *response);
                         Audit("CreatePool", request->spec().name(), peer, status);
                         return status;
                       });
}

absl::Status AdminService::DoCreatePool(const Peer& peer, const v1::CreatePoolRequest& request,
                                        v1::CreatePoolResponse& response) {
  // While the daemon starts, its config's pools have the names and the memory.
  KVPOOL_RETURN_IF_ERROR(CheckServing(context_, "it creates no pool"));
  KVPOOL_ASSIGN_OR_RETURN(const PoolSpec spec, SpecFromProto(request.spec()));
  KVPOOL_ASSIGN_OR_RETURN(const ServedPool served, context_.pools.Create(spec));
  *response.mutable_pool() = ToMessage(*served.pool, ViewerOf(peer));
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* AdminService::DeletePool(grpc::CallbackServerContext* call,
                                                   const v1::DeletePoolRequest* request,
                                                   v1::DeletePoolResponse* /*response*/) {
  // Unmapping takes as long as the memory is large.
  const absl::StatusOr<ServedPool> served = context_.pools.Find(request->name());
  const bool is_on_gpus = served.ok() && IsCuda(served->pool->layout().spec);
  return calls_.Answer(call, *request, Access::kAdmin, is_on_gpus ? Place::kGpus : Place::kCreation,
                       [this, request](const Peer& peer) {
                         absl::Status status = context_.pools.Delete(request->name());
                         Audit("DeletePool", request->name(), peer, status);
                         return status;
                       });
}

grpc::ServerUnaryReactor* AdminService::ResetPrefixes(grpc::CallbackServerContext* call,
                                                      const v1::ResetPrefixesRequest* request,
                                                      v1::ResetPrefixesResponse* response) {
  return calls_.Answer(call, *request, Access::kAdmin, Place::kWorkers,
                       [this, request, response](const Peer& peer) {
                         absl::Status status = DoResetPrefixes(*request, *response);
                         Audit("ResetPrefixes", request->pool(), peer, status);
                         return status;
                       });
}

absl::Status AdminService::DoResetPrefixes(const v1::ResetPrefixesRequest& request,
                                           v1::ResetPrefixesResponse& response) {
  KVPOOL_ASSIGN_OR_RETURN(const ServedPool served, context_.pools.Find(request.pool()));
  std::optional<absl::string_view> tenant;
  if (!request.tenant().empty()) tenant = request.tenant();
  response.set_forgotten(served.pool->ResetPrefixes(tenant));
  v1::Notice notice;
  notice.set_kind(v1::Notice::KIND_PREFIXES_RESET);
  for (const SessionInfo& session : served.pool->ListSessions()) {
    if (tenant.has_value() && session.tenant != *tenant) continue;
    context_.sessions.Send(session.id, notice);
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* AdminService::TerminateSession(
    grpc::CallbackServerContext* call, const v1::TerminateSessionRequest* request,
    v1::TerminateSessionResponse* /*response*/) {
  return calls_.Answer(call, *request, Access::kAdmin, Place::kWorkers,
                       [this, request](const Peer& peer) {
                         absl::Status status = DoTerminateSession(*request);
                         const absl::string_view id = request->session_id();
                         Audit("TerminateSession", id.substr(0, 8), peer, status);
                         return status;
                       });
}

absl::Status AdminService::DoTerminateSession(const v1::TerminateSessionRequest& request) {
  KVPOOL_ASSIGN_OR_RETURN(const SessionCall found,
                          FindSessionByPrefix(context_.sessions, request.session_id(), Viewer{}));
  return found.pool->TerminateSession(found.session, request.release_claims());
}

grpc::ServerUnaryReactor* AdminService::Drain(grpc::CallbackServerContext* call,
                                              const v1::DrainRequest* request,
                                              v1::DrainResponse* /*response*/) {
  return calls_.AnswerLater(call, *request, Access::kAdmin, Place::kHere,
                            [this, request](const Peer& peer, Reply reply) {
                              const absl::Status status = StartDrain(*request, reply);
                              Audit("Drain", "", peer, status);
                              if (!status.ok()) reply(status);
                            });
}

// Replies itself where it returns OK.
absl::Status AdminService::StartDrain(const v1::DrainRequest& request, Reply reply) {
  constexpr Duration kMaxDeadline = std::chrono::hours(24);
  std::optional<Duration> deadline;
  if (request.has_deadline()) {
    KVPOOL_ASSIGN_OR_RETURN(deadline, ToDuration("deadline", request.deadline()));
    if (*deadline < Duration::zero() || *deadline > kMaxDeadline) {
      return absl::InvalidArgumentError(
          absl::StrCat("deadline is ", request.deadline().seconds(), " s; it is 0 to 24 hours"));
    }
  }
  context_.drain(deadline, [reply] { reply(absl::OkStatus()); });
  return absl::OkStatus();
}

}  // namespace kvpool::server
