#include "server/rpc/pipeline.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/mutex.h"
#include "core/status_macros.h"
#include "server/rpc/admission.h"
#include "server/rpc/attach_stream.h"
#include "server/rpc/call_entries.h"
#include "server/rpc/notice_queue.h"
#include "server/rpc/pipelined_call.h"
#include "server/rpc/refused_stream.h"
#include "server/rpc/status_mapping.h"
#include "server/rpc/step_order.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {
namespace {

using Reactor = grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>;

// What a stream holds while its caller does not read: answers that wait, those being written and
// their bytes.
constexpr size_t kPipelineBytes = 2 * kStreamBytes;
// Answers that may wait for the write in flight. One more is at most 1.3 MiB.
constexpr size_t kMaxWaitingBytes = 512 << 10;

// The entries of calls that are done in one go before others have their turn.
constexpr int64_t kEntriesATurn = 512;
// What a call costs beside its blocks.
constexpr int64_t kEntriesACall = 8;

// A Pipeline's stream, attached to its session as KeepAlive's. Two things go on at a time:
//
// - The steps: a message is read, its calls are run one after the other, and the next is read.
//   No two steps run at once. A step may end on another thread than it began on.
// - The writes, one in flight at a time: of the answers and notices that came meanwhile.
//
// The stream is finished once, when no write is in flight and no step runs; a read that is in
// flight then ends, too. Owns itself until OnDone; the hub shares it, and who calls holds a share.
class PipelineStream final : public Reactor, public SessionStream {
 public:
  static Reactor* Start(const ServiceContext& context, AdmittedCall call) {
    auto stream = std::make_shared<PipelineStream>(context, std::move(call));
    stream->self_ = stream;
    stream->ReadNext();
    return stream.get();
  }

  // Begins within its first step.
  PipelineStream(const ServiceContext& context, AdmittedCall call)
      : context_(context), call_(std::move(call)), on_answered_([this] { Answered(); }) {}

  void Send(const v1::Notice& notice) override {
    {
      const MutexLock lock(mutex_);
      if (end_.has_value()) return;
      notices_.Push(notice);
    }
    Flush();
  }

  void End(const absl::Status& status) override {
    {
      const MutexLock lock(mutex_);
      if (end_.has_value()) return;
      end_ = ToGrpcStatus(status);
    }
    Flush();
  }

 private:
  const Peer& peer() const { return *call_.peer; }

  // ---- The steps.

  // The end of a step: what its message was answered goes, and the next begins.
  void ReadNext() {
    Flush();
    request_ = v1::PipelineRequest();
    request_memory_ = CallMemory();
    order_.End();
    if (!HasEnded()) StartRead(&request_);
    EndStep();
  }

  void OnReadDone(bool ok) override {
    if (!BeginStep()) return;
    order_.Begin();
    // A read that fails is the half-close: all that came before is answered by now.
    const absl::Status status = ok ? Open() : CheckNotEmpty();
    if (!ok || !status.ok()) {
      End(status);
      Detach();
      EndStep();
      return;
    }
    TakeMemory();
    next_call_ = 0;
    turn_entries_ = kEntriesATurn;
    RunCalls();
  }

  absl::Status CheckNotEmpty() const {
    if (!session_id_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("the stream is empty; its first message names the session");
  }

  // Attaches the first message's session. Sees to it that later messages are of no other.
  absl::Status Open() {
    if (std::cmp_greater(request_.calls_size(), context_.limits.max_blocks_per_call)) {
      return absl::InvalidArgumentError(absl::StrCat("a message has ", request_.calls_size(),
                                                     " calls; it has at most ",
                                                     context_.limits.max_blocks_per_call));
    }
    if (!session_id_.empty()) {
      if (request_.session_id().empty() || request_.session_id() == session_id_) {
        return absl::OkStatus();
      }
      return absl::InvalidArgumentError(
          "session_id of a later message is not that of the first; leave it empty");
    }
    KVPOOL_ASSIGN_OR_RETURN(const SessionCall session,
                            FindSession(context_.sessions, "session_id", request_.session_id()));
    KVPOOL_RETURN_IF_ERROR(AttachStream(context_, session, peer(), self_));
    session_id_ = request_.session_id();
    bool has_ended = false;
    {
      const MutexLock lock(mutex_);
      session_ = session;
      has_ended = end_.has_value();
    }
    // The stream may have broken before it could know what to detach.
    if (has_ended) Detach();
    return absl::OkStatus();
  }

  // Where there is no memory for the message, its calls are refused, as unary ones would be: the
  // stream's end would be that of the session, for what maybe others hold.
  void TakeMemory() {
    call_count_ = request_.calls_size();
    refusal_ = absl::OkStatus();
    const size_t bytes = RequestBytes(request_);
    if (bytes == 0) return;
    auto memory = TakeCallMemory(context_, peer(), bytes);
    if (memory.ok()) {
      request_memory_ = *std::move(memory);
    } else {
      request_ = v1::PipelineRequest();
      refusal_ = memory.status();
    }
  }

  // Runs the message's calls that are left. Leaves them to others to go on with where it is the
  // turn of others, where a call is not done at once, and where too many answers wait. The answers
  // that there are when it leaves travel together.
  void RunCalls() {
    while (next_call_ < call_count_ && !HasEnded()) {
      v1::PipelineRequest::Call* const call =
          refusal_.ok() ? request_.mutable_calls(next_call_) : nullptr;
      if (!TakeTurn(kEntriesACall + (call != nullptr ? EntriesOf(*call) : 0))) {
        Flush();
        GoOnLater();
        return;
      }
      if (!HasRoom()) return;
      ++next_call_;
      is_half_done_ = false;
      if (call != nullptr) {
        RunPipelinedCall(context_, peer(), session_id_, *call, answer_, on_answered_);
      } else {
        SetStatus(refusal_, answer_);
        Answered();
      }
      if (!is_half_done_) Flush();
      // The second to come here goes on: this, or Answered.
      if (!is_half_done_.exchange(true)) return;
    }
    ReadNext();
  }

  // Called for each call once, maybe by RunPipelinedCall.
  void Answered() {
    const std::shared_ptr<PipelineStream> self = self_;
    {
      const MutexLock lock(mutex_);
      waiting_bytes_ += answer_.ByteSizeLong();
      *waiting_.add_answers() = std::exchange(answer_, {});
    }
    if (is_half_done_.exchange(true)) RunCalls();
  }

  // Whether a call of so many entries may run in the turn that it is. A turn has a call at least.
  bool TakeTurn(int64_t entries) {
    if (entries > turn_entries_ && !is_turn_new_) return false;
    turn_entries_ -= entries;
    is_turn_new_ = false;
    return true;
  }

  // Has the process's next turn among the workers go on with RunCalls.
  void GoOnLater() {
    PostAt(Place::kWorkers, context_, peer(), [self = self_] {
      self->turn_entries_ = kEntriesATurn;
      self->is_turn_new_ = true;
      self->RunCalls();
    });
  }

  // Whether one more answer may wait. If not, the write in flight has RunCalls go on.
  bool HasRoom() {
    {
      const MutexLock lock(mutex_);
      if (waiting_bytes_ < kMaxWaitingBytes) return true;
    }
    Flush();
    const MutexLock lock(mutex_);
    is_paused_ = is_writing_ && waiting_bytes_ >= kMaxWaitingBytes;
    return !is_paused_;
  }

  bool HasEnded() {
    const MutexLock lock(mutex_);
    return end_.has_value();
  }

  // False where the stream is finished: nothing may follow.
  bool BeginStep() {
    const MutexLock lock(mutex_);
    if (is_finished_) return false;
    ++steps_;
    return true;
  }

  void EndStep() {
    {
      const MutexLock lock(mutex_);
      --steps_;
    }
    Flush();
  }

  // ---- The writes.

  // Does what is next, unless a write is in flight: the next one, or, where no step runs, the end.
  void Flush() {
    std::optional<grpc::Status> end;
    {
      const MutexLock lock(mutex_);
      if (is_writing_ || is_finished_) return;
      if (waiting_.answers().empty() && notices_.empty()) {
        if (!end_.has_value() || steps_ > 0) return;
        is_finished_ = true;
        end = end_;
      } else {
        is_writing_ = true;
        response_ = std::exchange(waiting_, {});
        waiting_bytes_ = 0;
        if (!notices_.empty()) *response_.mutable_notice() = notices_.Pop();
      }
    }
    if (end.has_value()) {
      Finish(*std::move(end));
    } else {
      StartWrite(&response_);
    }
  }

  void OnWriteDone(bool ok) override {
    if (!ok) Break();
    bool was_paused = false;
    {
      const MutexLock lock(mutex_);
      is_writing_ = false;
      was_paused = std::exchange(is_paused_, false);
    }
    Flush();
    if (was_paused) GoOnLater();
  }

  void OnCancel() override { Break(); }

  // Nobody reads any more.
  void Break() {
    End(absl::CancelledError("the stream broke"));
    Detach();
    {
      const MutexLock lock(mutex_);
      waiting_.Clear();
      notices_.Clear();
    }
    Flush();
  }

  // The session, if any yet, ends with its stream. Requires that the stream's end is known: the hub
  // tells it one, too.
  void Detach() {
    SessionCall session;
    {
      const MutexLock lock(mutex_);
      session = session_;
    }
    if (session.pool != nullptr) session.pool->Detach(session.session);
  }

  void OnDone() override {
    const std::shared_ptr<PipelineStream> last = std::move(self_);
    const MutexLock lock(mutex_);
    if (session_.pool != nullptr) context_.sessions.DropStream(session_.session, this);
  }

  const ServiceContext& context_;
  const AdmittedCall call_;
  std::shared_ptr<PipelineStream> self_;  // Set before it starts, reset when it is done.

  // Of the step that runs.
  StepOrder order_;
  std::string session_id_;  // Empty until the first message has named it.
  v1::PipelineRequest request_;
  CallMemory request_memory_;
  int call_count_ = 0;    // Of the message, be it dropped.
  absl::Status refusal_;  // Of them all, where it is.
  int next_call_ = 0;
  int64_t turn_entries_ = 0;  // Left of this turn.
  bool is_turn_new_ = false;
  v1::PipelineResponse::Answer answer_;  // Of the call that runs.
  const std::function<void()> on_answered_;
  // Set by the first of RunCalls and Answered that is done with a call.
  std::atomic<bool> is_half_done_ = false;

  v1::PipelineResponse response_;  // Of the write in flight.

  Mutex mutex_;
  SessionCall session_ ABSL_GUARDED_BY(mutex_);  // Without a pool until attached.
  int steps_ ABSL_GUARDED_BY(mutex_) = 1;        // Running: one, or two for a moment.
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_paused_ ABSL_GUARDED_BY(mutex_) = false;  // RunCalls waits for the write.
  bool is_finished_ ABSL_GUARDED_BY(mutex_) = false;
  v1::PipelineResponse waiting_ ABSL_GUARDED_BY(mutex_);  // Answers for the next write.
  size_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  NoticeQueue notices_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>* StartPipeline(
    const ServiceContext& context, grpc::CallbackServerContext* call) {
  auto admitted = AdmitCall(context, *call, Access::kBlocks, v1::PipelineRequest(), kPipelineBytes);
  if (!admitted.ok()) return new RefusedStream<Reactor>(admitted.status());
  return PipelineStream::Start(context, *std::move(admitted));
}

}  // namespace kvpool::server
