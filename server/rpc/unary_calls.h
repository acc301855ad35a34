#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "server/rpc/admission.h"
#include "server/rpc/call_memory.h"
#include "server/rpc/services.h"
#include "server/rpc/status_mapping.h"

namespace kvpool::server {

// A call's session, and the pool that it is in.
struct SessionCall {
  SessionId session;
  std::shared_ptr<Pool> pool;
};

// Errors: INVALID_ARGUMENT, naming `field`: not an id at all; NOT_FOUND (SESSION_UNKNOWN).
absl::StatusOr<SessionCall> FindSession(const SessionHub& sessions, absl::string_view field,
                                        absl::string_view session_id);

// Whether the daemon takes on new sessions and pools; `refusal` says what it does not do, such as
// "it opens no session". Errors: UNAVAILABLE: STARTING, or DRAINING.
absl::Status CheckServing(const ServiceContext& context, absl::string_view refusal);

// Answers a unary call: called once, on any thread.
class Reply {
 public:
  explicit Reply(grpc::ServerUnaryReactor* reactor) : reactor_(reactor) {}
  void operator()(const absl::Status& status) const { reactor_->Finish(ToGrpcStatus(status)); }

 private:
  grpc::ServerUnaryReactor* reactor_;
};

// Where a call's work is done.
enum class Place : uint8_t {
  kHere,      // On the thread of gRPC's that brought it: it takes some 30 us at most.
  kWorkers,   // ServiceContext::workers, in the turn of the caller's process.
  kCreation,  // ServiceContext::creation.
  kGpus,      // ServiceContext::gpus.
};

// Where work on `entries` blocks is done: here where it is short. A block costs some 60 ns.
inline Place PlaceFor(int64_t entries) {
  constexpr int64_t kMaxEntriesHere = 512;
  return entries <= kMaxEntriesHere ? Place::kHere : Place::kWorkers;
}

// Where work is done that is about the devices of `spec`, which need not be right: apart where it
// names any but the host, since a GPU's driver may take seconds or never answer; else `place`.
Place PlaceFor(const v1::PoolSpec& spec, Place place);

// Has a piece of a call's work for `caller` done.
template <typename Work>
void PostAt(Place place, const ServiceContext& context, const Peer& caller, Work work) {
  switch (place) {
    case Place::kHere:
      work();
      break;
    case Place::kWorkers:
      context.workers.Post(caller.process->id(), std::move(work));
      break;
    case Place::kCreation:
      context.creation.Post(std::move(work));
      break;
    case Place::kGpus:
      context.gpus.Post(std::move(work));
      break;
  }
}

// UnaryCalls runs the unary methods of a service: admits the caller, sees whether there is memory
// for the call, then runs the method's work where it belongs, unless the call is cancelled by
// then. Requests and responses live until the answer, so work may keep pointers.
class UnaryCalls {
 public:
  // `context` must outlive it.
  explicit UnaryCalls(const ServiceContext& context) : context_(context) {}

  // Answers with the status that `work(const Peer&)` returns.
  template <typename Request, typename Work>
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* call, const Request& request,
                                   Access access, Place place, Work work) {
    return AnswerLater(
        call, request, access, place,
        [work = std::move(work)](const Peer& peer, Reply reply) mutable { reply(work(peer)); });
  }

  // `work(const Peer&, Reply)` sees to it that the reply is called.
  template <typename Request, typename Work>
  grpc::ServerUnaryReactor* AnswerLater(grpc::CallbackServerContext* call, const Request& request,
                                        Access access, Place place, Work work) {
    absl::StatusOr<AdmittedCall> admitted =
        AdmitCall(context_, *call, access, request, AnswerBytes(request));
    if (!admitted.ok()) return Refuse(call, admitted.status());
    // gRPC's own reactor costs a call some 12 us less than one of ours.
    grpc::ServerUnaryReactor* const reactor = admitted->memory.is_empty()
                                                  ? call->DefaultReactor()
                                                  : new LongCall(std::move(admitted->memory));
    std::shared_ptr<const Peer> peer = std::move(admitted->peer);
    const Peer& caller = *peer;
    PostAt(place, context_, caller,
           [call, reactor, peer = std::move(peer), work = std::move(work)]() mutable {
             // Nobody waits for what a caller that is gone had queued.
             if (call->IsCancelled()) {
               reactor->Finish(grpc::Status::CANCELLED);
             } else {
               work(*peer, Reply(reactor));
             }
           });
    return reactor;
  }

  // A call that is refused before it is looked at.
  static grpc::ServerUnaryReactor* Refuse(grpc::CallbackServerContext* call,
                                          const absl::Status& status) {
    grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
    reactor->Finish(ToGrpcStatus(status));
    return reactor;
  }

 private:
  // The reactor of a call whose memory is counted.
  class LongCall final : public grpc::ServerUnaryReactor {
   public:
    explicit LongCall(CallMemory memory) : memory_(std::move(memory)) {}

   private:
    void OnDone() override { delete this; }

    const CallMemory memory_;
  };

  const ServiceContext& context_;
};

}  // namespace kvpool::server
