#include "server/rpc/watch_prefixes.h"

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/mutex.h"
#include "core/status_macros.h"
#include "server/rpc/admission.h"
#include "server/rpc/inspect_convert.h"
#include "server/rpc/refused_stream.h"
#include "server/rpc/status_mapping.h"
#include "server/rpc/step_order.h"
#include "server/rpc/unary_calls.h"
#include "server/rpc/watch_convert.h"
#include "server/rpc/watch_hub.h"

namespace kvpool::server {
namespace {

using Reactor = grpc::ServerWriteReactor<v1::WatchPrefixesResponse>;

// What is read of the pool before it is sent: a message's worth, or many small ones'.
constexpr size_t kReadBytes = size_t{256} << 10;

// What an event takes here, some more than in its message.
size_t BytesOf(const PrefixEvent& event) {
  return sizeof(PrefixEvent) + event.model_id.size() + event.adapter.size() +
         event.keys.size() * (sizeof(PrefixKey) + sizeof(BlockRef)) +
         event.tokens.size() * sizeof(uint32_t);
}

// The stream of somebody who watches. The pool's changes, heartbeats and the end come on any
// thread, cancellation and finished writes from gRPC.
//
// Whoever sets `is_busy_` does the stream's next step, without the mutex: reads the pool, writes,
// or finishes, which is done once. A step that has nothing to write resets it. Owns itself until
// OnDone; who calls holds a share.
class WatchStream final : public Reactor, public WatchSink {
 public:
  // Errors: RESOURCE_EXHAUSTED (LIMIT).
  static absl::StatusOr<Reactor*> Start(const ServiceContext& context, AdmittedCall call,
                                        const std::shared_ptr<Pool>& pool, const WatchCall& watch) {
    auto stream = std::make_shared<WatchStream>(context, std::move(call), pool);
    KVPOOL_RETURN_IF_ERROR(context.watches.Add(stream, stream->call_.peer->process->id()));
    stream->self_ = stream;
    const std::weak_ptr<WatchStream> weak = stream;
    stream->watch_ = pool->OpenWatch(watch, [weak] {
      if (const auto self = weak.lock()) self->Wake();
    });
    stream->EndStep();
    return stream.get();
  }

  WatchStream(const ServiceContext& context, AdmittedCall call, const std::shared_ptr<Pool>& pool)
      : context_(context),
        call_(std::move(call)),
        pool_(pool),
        block_size_(*pool->layout().spec.block_size) {
    response_.set_daemon_epoch(context.daemon_epoch);
    order_.End();
  }

  void Beat() override {
    {
      const MutexLock lock(mutex_);
      is_beat_due_ = true;
    }
    Continue();
  }

  void End(const absl::Status& status) override { EndWith(ToGrpcStatus(status)); }

 private:
  void Wake() {
    {
      const MutexLock lock(mutex_);
      has_more_ = true;
    }
    Continue();
  }

  void EndWith(const grpc::Status& status) {
    {
      const MutexLock lock(mutex_);
      if (end_.has_value()) return;
      end_ = status;
    }
    Continue();
  }

  // The end of a step that leaves nothing in flight.
  void EndStep() {
    {
      const MutexLock lock(mutex_);
      is_busy_ = false;
    }
    Continue();
  }

  // Begins the next step, if there is one and none is under way.
  void Continue() {
    std::optional<grpc::Status> end;
    {
      const MutexLock lock(mutex_);
      if (is_busy_ || !(end_.has_value() || has_more_ || is_beat_due_)) return;
      is_busy_ = true;
      end = end_;
    }
    if (end.has_value()) {
      Finish(*std::move(end));  // `is_busy_` stays set: nothing follows.
    } else {
      context_.workers.Post(call_.peer->process->id(), [self = self_] { self->Read(); });
    }
  }

  // Reads what comes next, and begins to send it.
  void Read() {
    order_.Begin();
    bool is_beat_due = false;
    {
      const MutexLock lock(mutex_);
      has_more_ = false;
      is_beat_due = std::exchange(is_beat_due_, false);
    }
    // Held for these moments alone.
    if (const std::shared_ptr<Pool> pool = pool_.lock()) {
      ReadPool(*pool, is_beat_due);
    } else {
      EndWith(ToGrpcStatus(absl::AbortedError("the pool was deleted")));
    }
    WriteNext();
  }

  void ReadPool(Pool& pool, bool is_beat_due) {
    std::vector<PrefixEvent> events;
    WatchProgress progress = WatchProgress::kMore;
    for (size_t bytes = 0; bytes < kReadBytes && progress == WatchProgress::kMore;) {
      progress = pool.ReadWatch(watch_, events);
      bytes = 0;
      for (const PrefixEvent& event : events) bytes += BytesOf(event);
    }
    if (progress == WatchProgress::kMore) {
      const MutexLock lock(mutex_);
      has_more_ = true;
    }
    is_over_ = progress == WatchProgress::kOver;
    // What was told is as good as a heartbeat.
    if (events.empty() && is_beat_due && progress == WatchProgress::kCaughtUp) {
      heartbeat_ = pool.WatchSequence(watch_);
    }
    unsent_.assign(std::make_move_iterator(events.begin()), std::make_move_iterator(events.end()));
  }

  // Goes on with what was read; then with what comes next.
  void WriteNext() {
    response_.clear_event();
    if (heartbeat_.has_value()) {
      response_.set_sequence(*std::exchange(heartbeat_, std::nullopt));
      response_.mutable_heartbeat();
    } else if (!unsent_.empty()) {
      FromPrefixEvent(unsent_.front(), block_size_, response_);
      unsent_.pop_front();
    } else {
      if (is_over_) EndWith(grpc::Status::OK);
      order_.End();
      EndStep();
      return;
    }
    order_.End();
    StartWrite(&response_);
  }

  void OnWriteDone(bool ok) override {
    order_.Begin();
    if (!ok) EndWith(grpc::Status(grpc::StatusCode::CANCELLED, "the stream broke"));
    bool has_ended = false;
    {
      const MutexLock lock(mutex_);
      has_ended = end_.has_value();
    }
    if (has_ended) unsent_.clear();
    WriteNext();
  }

  void OnCancel() override {
    EndWith(grpc::Status(grpc::StatusCode::CANCELLED, "the stream broke"));
  }

  void OnDone() override {
    context_.watches.Remove(this);
    if (const std::shared_ptr<Pool> pool = pool_.lock()) pool->CloseWatch(watch_);
    const std::shared_ptr<WatchStream> last = std::move(self_);
  }

  const ServiceContext& context_;
  const AdmittedCall call_;
  const std::weak_ptr<Pool> pool_;
  const uint32_t block_size_;
  std::shared_ptr<WatchStream> self_;  // Set before it starts, reset when it is done.
  WatchId watch_{};                    // The same.

  // Of who set `is_busy_`.
  StepOrder order_;
  std::deque<PrefixEvent> unsent_;
  std::optional<uint64_t> heartbeat_;  // Its number, where one is to be sent.
  bool is_over_ = false;               // Nothing follows `unsent_`.
  v1::WatchPrefixesResponse response_;

  Mutex mutex_;
  bool is_busy_ ABSL_GUARDED_BY(mutex_) = true;  // Starting is its first step.
  bool has_more_ ABSL_GUARDED_BY(mutex_) = true;
  bool is_beat_due_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<grpc::Status> end_ ABSL_GUARDED_BY(mutex_);
};

absl::Status CheckTokens(v1::Role role) {
  if (role != v1::ROLE_INSPECTOR) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "with_tokens: the role of this socket is inspector, which may not see what prompts are; ask "
      "on a socket that may");
}

absl::StatusOr<Reactor*> Start(const ServiceContext& context, grpc::CallbackServerContext* call,
                               const v1::WatchPrefixesRequest& request) {
  KVPOOL_ASSIGN_OR_RETURN(AdmittedCall admitted,
                          AdmitCall(context, *call, Access::kInspect, request, kStreamBytes));
  if (request.with_tokens()) KVPOOL_RETURN_IF_ERROR(CheckTokens(admitted.peer->role));
  KVPOOL_ASSIGN_OR_RETURN(const ServedPool served, context.pools.Find(request.pool()));
  const Viewer viewer = ViewerOf(*admitted.peer);
  WatchCall watch = {.with_tokens = request.with_tokens()};
  if (viewer.tenant.has_value()) watch.tenant = *viewer.tenant;
  // A number means something to the daemon that gave it alone.
  if (request.daemon_epoch() == context.daemon_epoch) watch.after = request.after_sequence();
  return WatchStream::Start(context, std::move(admitted), served.pool, watch);
}

}  // namespace

grpc::ServerWriteReactor<v1::WatchPrefixesResponse>* StartWatchPrefixes(
    const ServiceContext& context, grpc::CallbackServerContext* call,
    const v1::WatchPrefixesRequest& request) {
  const absl::StatusOr<Reactor*> reactor = Start(context, call, request);
  if (reactor.ok()) return *reactor;
  return new RefusedStream<Reactor>(reactor.status());
}

}  // namespace kvpool::server
