#include "server/rpc/alloc_call.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/error.h"
#include "core/status_macros.h"
#include "server/rpc/admission.h"
#include "server/rpc/call_entries.h"
#include "server/rpc/convert.h"
#include "server/rpc/prefix_convert.h"
#include "server/rpc/status_mapping.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {
namespace {

// An AllocRequest or AcquireRequest, checked, with what an AllocCall points to.
struct CheckedAlloc {
  SessionCall session;
  std::vector<BlockRef> release;
  std::optional<PrefixKeys> prefix;
  AllocCall call;

  // Once it has come to rest.
  void Bind() {
    call.release = release;
    if (prefix.has_value()) call.prefix = &*prefix;
  }
};

absl::Status CheckCount(const ServiceContext& context, absl::string_view field, uint32_t count) {
  if (count <= context.limits.max_blocks_per_call) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", count, "; one call takes at most ",
                                                 context.limits.max_blocks_per_call, " blocks"));
}

// Of a request that may wait.
template <typename Request>
absl::StatusOr<std::optional<Duration>> ToWait(const ServiceContext& context,
                                               const Request& request) {
  if (!request.has_wait()) return std::optional<Duration>();
  KVPOOL_ASSIGN_OR_RETURN(const Duration wait, ToDuration("wait", request.wait()));
  if (context.draining && wait > Duration::zero()) {
    return MakeError(absl::StatusCode::kUnavailable, {.reason = Reason::kDraining},
                     "the daemon is draining: calls do not wait any more");
  }
  return std::optional<Duration>(wait);
}

absl::StatusOr<CheckedAlloc> Check(const ServiceContext& context, const v1::AllocRequest& request,
                                   const Peer& peer) {
  CheckedAlloc alloc;
  KVPOOL_ASSIGN_OR_RETURN(alloc.session,
                          FindSession(context.sessions, "session_id", request.session_id()));
  KVPOOL_ASSIGN_OR_RETURN(
      alloc.release, ToBlockRefs("release", request.release(), context.limits.max_blocks_per_call));
  KVPOOL_ASSIGN_OR_RETURN(const Fill fill, ToFill("fill", request.fill()));
  KVPOOL_RETURN_IF_ERROR(CheckCount(context, "count", request.count()));
  KVPOOL_ASSIGN_OR_RETURN(const std::optional<Duration> wait, ToWait(context, request));
  alloc.call = {.caller = {.session = alloc.session.session, .tenant = peer.tenant},
                .count = request.count(),
                .allow_partial = request.allow_partial(),
                .wait = wait,
                .fill = fill,
                .idempotency_key = request.idempotency_key()};
  return alloc;
}

absl::StatusOr<CheckedAlloc> Check(const ServiceContext& context, const v1::AcquireRequest& request,
                                   const Peer& peer) {
  CheckedAlloc alloc;
  KVPOOL_ASSIGN_OR_RETURN(alloc.session,
                          FindSession(context.sessions, "session_id", request.session_id()));
  KVPOOL_ASSIGN_OR_RETURN(const Fill fill, ToFill("fill", request.fill()));
  KVPOOL_RETURN_IF_ERROR(CheckCount(context, "total_blocks", request.total_blocks()));
  KVPOOL_ASSIGN_OR_RETURN(const std::optional<Duration> wait, ToWait(context, request));
  // Only that many are matched.
  KVPOOL_ASSIGN_OR_RETURN(
      alloc.prefix, ToPrefixKeys(alloc.session, peer, request.prefix(), request.total_blocks()));
  alloc.call = {.caller = {.session = alloc.session.session, .tenant = peer.tenant},
                .count = request.total_blocks(),
                .max_new_blocks = request.max_new_blocks(),
                .wait = wait,
                .fill = fill,
                .idempotency_key = request.idempotency_key(),
                .queue = WaitQueue::kAdmit};
  return alloc;
}

absl::Status Respond(const absl::StatusOr<AllocAnswer>& answer, v1::AllocResponse& response) {
  if (!answer.ok()) return answer.status();
  FromBlockRefs(answer->blocks, *response.mutable_blocks());
  response.set_available(answer->available);
  return absl::OkStatus();
}

absl::Status Respond(const absl::StatusOr<AllocAnswer>& answer, v1::AcquireResponse& response) {
  if (!answer.ok()) return answer.status();
  FromBlockRefs(answer->blocks, *response.mutable_blocks());
  response.set_matched_blocks(answer->matched_blocks);
  FromKey(answer->last_key, *response.mutable_last_key());
  response.set_available(answer->available);
  return absl::OkStatus();
}

// What of a call is left to withdraw.
struct StartedAlloc {
  std::shared_ptr<Pool> pool;
  PendingId pending{};
};

template <typename Request, typename Response>
StartedAlloc Run(const ServiceContext& context, const Peer& peer, const Request& request,
                 Response& response, const AllocDone& done) {
  absl::StatusOr<CheckedAlloc> alloc = Check(context, request, peer);
  if (!alloc.ok()) {
    done(alloc.status());
    return {};
  }
  alloc->Bind();
  const PendingId pending = alloc->session.pool->Alloc(
      alloc->call, [done, &response](const absl::StatusOr<AllocAnswer>& answer) {
        done(Respond(answer, response));
      });
  return {.pool = std::move(alloc->session.pool), .pending = pending};
}

template <typename Request, typename Response>
void RunCancellable(const ServiceContext& context, const Peer& peer, const Request& request,
                    Response& response, AllocCanceller& canceller, const AllocDone& done) {
  StartedAlloc started = Run(context, peer, request, response, done);
  canceller.Begin(std::move(started.pool), started.pending);
}

// A call that may wait. Owns itself until OnDone. Its callback, its cancellation and its own start
// may come in any order, on any threads: each keeps the reactor alive while it runs.
template <typename Request, typename Response>
class AllocReactor final : public grpc::ServerUnaryReactor {
 public:
  static grpc::ServerUnaryReactor* Start(const ServiceContext& context, Place place,
                                         AdmittedCall call, const Request* request,
                                         Response* response) {
    auto reactor = std::make_shared<AllocReactor>(std::move(call), response);
    reactor->self_ = reactor;
    PostAt(place, context, *reactor->call_.peer,
           [reactor, &context, request] { reactor->Run(context, *request); });
    return reactor.get();
  }

  AllocReactor(AdmittedCall call, Response* response)
      : call_(std::move(call)), response_(response) {}

 private:
  void Run(const ServiceContext& context, const Request& request) {
    const std::shared_ptr<AllocReactor> self = self_;
    RunCancellable(context, *call_.peer, request, *response_, canceller_,
                   [self](const absl::Status& status) { self->Finish(ToGrpcStatus(status)); });
  }

  void OnCancel() override { canceller_.Cancel(); }

  void OnDone() override { const std::shared_ptr<AllocReactor> last = std::move(self_); }

  const AdmittedCall call_;
  Response* const response_;
  std::shared_ptr<AllocReactor> self_;  // Set before it starts, reset when it is done.
  AllocCanceller canceller_;
};

template <typename Request, typename Response>
grpc::ServerUnaryReactor* Start(const ServiceContext& context, UnaryCalls& calls, Place place,
                                grpc::CallbackServerContext* call, const Request* request,
                                Response* response) {
  if (!request->has_wait()) {
    // Nothing to cancel.
    return calls.AnswerLater(call, *request, Access::kBlocks, place,
                             [&context, request, response](const Peer& peer, const Reply& reply) {
                               Run(context, peer, *request, *response, AllocDone(reply));
                             });
  }
  absl::StatusOr<AdmittedCall> admitted =
      AdmitCall(context, *call, Access::kBlocks, *request, AnswerBytes(*request));
  if (!admitted.ok()) return UnaryCalls::Refuse(call, admitted.status());
  return AllocReactor<Request, Response>::Start(context, place, *std::move(admitted), request,
                                                response);
}

}  // namespace

void Alloc(const ServiceContext& context, const Peer& peer, const v1::AllocRequest& request,
           v1::AllocResponse& response, AllocCanceller& canceller, const AllocDone& done) {
  RunCancellable(context, peer, request, response, canceller, done);
}

void Acquire(const ServiceContext& context, const Peer& peer, const v1::AcquireRequest& request,
             v1::AcquireResponse& response, AllocCanceller& canceller, const AllocDone& done) {
  RunCancellable(context, peer, request, response, canceller, done);
}

void AllocAtOnce(const ServiceContext& context, const Peer& peer, const v1::AllocRequest& request,
                 v1::AllocResponse& response, const AllocDone& done) {
  Run(context, peer, request, response, done);
}

void AcquireAtOnce(const ServiceContext& context, const Peer& peer,
                   const v1::AcquireRequest& request, v1::AcquireResponse& response,
                   const AllocDone& done) {
  Run(context, peer, request, response, done);
}

grpc::ServerUnaryReactor* StartAlloc(const ServiceContext& context, UnaryCalls& calls,
                                     grpc::CallbackServerContext* call,
                                     const v1::AllocRequest* request, v1::AllocResponse* response) {
  return Start(context, calls, PlaceFor(EntriesOf(*request)), call, request, response);
}

grpc::ServerUnaryReactor* StartAcquire(const ServiceContext& context, UnaryCalls& calls,
                                       grpc::CallbackServerContext* call,
                                       const v1::AcquireRequest* request,
                                       v1::AcquireResponse* response) {
  return Start(context, calls, PlaceFor(EntriesOf(*request)), call, request, response);
}

}  // namespace kvpool::server
