#include "server/rpc/keep_alive.h"

#include <memory>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/mutex.h"
#include "core/status_macros.h"
#include "server/rpc/admission.h"
#include "server/rpc/attach_stream.h"
#include "server/rpc/notice_queue.h"
#include "server/rpc/refused_stream.h"
#include "server/rpc/status_mapping.h"
#include "server/rpc/step_order.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {
namespace {

using Reactor = grpc::ServerWriteReactor<v1::KeepAliveResponse>;

// The stream of an attached session. Notices and the end come from the hub, cancellation and
// finished writes from gRPC, in any order and on any thread.
//
// One write is in flight at a time, and the stream is finished once, when no write is: whoever
// sets `is_busy_` is the one to call gRPC, outside the mutex. Owns itself until OnDone; the hub
// shares it, and who calls holds a share.
class KeepAliveStream final : public Reactor, public SessionStream {
 public:
  KeepAliveStream(SessionHub& sessions, AdmittedCall call, SessionCall session)
      : call_(std::move(call)), sessions_(sessions), session_(std::move(session)) {
    order_.End();
  }

  // Attaches the session. Where that fails nothing has changed.
  static absl::StatusOr<Reactor*> Start(const ServiceContext& context, AdmittedCall call,
                                        SessionCall session) {
    const std::shared_ptr<const Peer> peer = call.peer;
    auto stream =
        std::make_shared<KeepAliveStream>(context.sessions, std::move(call), std::move(session));
    KVPOOL_RETURN_IF_ERROR(AttachStream(context, stream->session_, *peer, stream));
    stream->self_ = stream;
    return stream.get();
  }

  void Send(const v1::Notice& notice) override {
    {
      const MutexLock lock(mutex_);
      if (end_.has_value()) return;
      waiting_.Push(notice);
    }
    Continue();
  }

  void End(const absl::Status& status) override { EndWith(ToGrpcStatus(status)); }

 private:
  void EndWith(const grpc::Status& status) {
    {
      const MutexLock lock(mutex_);
      if (end_.has_value()) return;
      end_ = status;
    }
    Continue();
  }

  // Does what is next, if nothing is in flight: the next write, or the end.
  void Continue() {
    std::optional<grpc::Status> end;
    {
      const MutexLock lock(mutex_);
      if (is_busy_ || (waiting_.empty() && !end_.has_value())) return;
      is_busy_ = true;
      if (waiting_.empty()) {
        end = end_;
      } else {
        *response_.mutable_notice() = waiting_.Pop();
      }
    }
    if (end.has_value()) {
      Finish(*std::move(end));  // `is_busy_` stays set: nothing follows.
    } else {
      StartWrite(&response_);
    }
  }

  void OnWriteDone(bool ok) override {
    {
      const MutexLock lock(mutex_);
      is_busy_ = false;
    }
    if (!ok) {
      Break();
    } else {
      Continue();
    }
  }

  void OnCancel() override { Break(); }

  // Nobody reads any more.
  void Break() {
    order_.Begin();
    session_.pool->Detach(session_.session);
    {
      const MutexLock lock(mutex_);
      waiting_.Clear();
      if (!end_.has_value()) end_ = grpc::Status(grpc::StatusCode::CANCELLED, "the stream broke");
    }
    Continue();
  }

  void OnDone() override {
    sessions_.DropStream(session_.session, this);
    const std::shared_ptr<KeepAliveStream> last = std::move(self_);
  }

  const AdmittedCall call_;
  StepOrder order_;  // Of the session's being found, and its uses.
  SessionHub& sessions_;
  const SessionCall session_;
  std::shared_ptr<KeepAliveStream> self_;  // Set before it starts, reset when it is done.
  v1::KeepAliveResponse response_;         // Of who set `is_busy_`.

  Mutex mutex_;
  bool is_busy_ ABSL_GUARDED_BY(mutex_) = false;
  NoticeQueue waiting_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Status> end_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<Reactor*> Start(const ServiceContext& context, grpc::CallbackServerContext* call,
                               const v1::KeepAliveRequest& request) {
  KVPOOL_ASSIGN_OR_RETURN(AdmittedCall admitted,
                          AdmitCall(context, *call, Access::kBlocks, request, /*answer_bytes=*/0));
  KVPOOL_ASSIGN_OR_RETURN(SessionCall session,
                          FindSession(context.sessions, "session_id", request.session_id()));
  return KeepAliveStream::Start(context, std::move(admitted), std::move(session));
}

}  // namespace

grpc::ServerWriteReactor<v1::KeepAliveResponse>* StartKeepAlive(
    const ServiceContext& context, grpc::CallbackServerContext* call,
    const v1::KeepAliveRequest& request) {
  const absl::StatusOr<Reactor*> reactor = Start(context, call, request);
  if (reactor.ok()) return *reactor;
  return new RefusedStream<Reactor>(reactor.status());
}

}  // namespace kvpool::server
