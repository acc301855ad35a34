#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "core/executor.h"
#include "server/rpc/admission.h"
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

// UnaryCalls runs the unary methods of a service: admits the caller, then runs the method's work
// where it belongs, unless the call is cancelled by then. Requests and responses live until the
// answer, so work may keep pointers.
class UnaryCalls {
 public:
  // `context` must outlive it.
  explicit UnaryCalls(const ServiceContext& context) : context_(context) {}

  // Answers with the status that `work(const Peer&)` returns.
  template <typename Work>
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* call, Access access,
                                   Executor& executor, Work work) {
    return AnswerLater(
        call, access, executor,
        [work = std::move(work)](const Peer& peer, Reply reply) mutable { reply(work(peer)); });
  }

  // `work(const Peer&, Reply)` sees to it that the reply is called.
  template <typename Work>
  grpc::ServerUnaryReactor* AnswerLater(grpc::CallbackServerContext* call, Access access,
                                        Executor& executor, Work work) {
    grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
    auto peer = Admit(context_.peers, *call, access);
    if (!peer.ok()) {
      reactor->Finish(ToGrpcStatus(peer.status()));
      return reactor;
    }
    executor.Post([call, reactor, peer = *std::move(peer), work = std::move(work)]() mutable {
      // Nobody waits for what a caller that is gone had queued.
      if (call->IsCancelled()) {
        reactor->Finish(grpc::Status::CANCELLED);
      } else {
        work(*peer, Reply(reactor));
      }
    });
    return reactor;
  }

  // Where work on `entries` blocks runs: at once where it is short. A block costs some 60 ns, so
  // 512 of them take the 30 us that a thread of gRPC's can spare.
  Executor& ExecutorFor(int64_t entries) {
    return entries <= kMaxInlineEntries ? static_cast<Executor&>(inline_) : context_.workers;
  }
  Executor& inline_executor() { return inline_; }

 private:
  static constexpr int64_t kMaxInlineEntries = 512;

  const ServiceContext& context_;
  InlineExecutor inline_;
};

}  // namespace kvpool::server
