#include "server/rpc/pipelined_call.h"

#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"

#include "core/status_macros.h"
#include "server/rpc/alloc_call.h"
#include "server/rpc/cache_calls.h"
#include "server/rpc/reference_calls.h"
#include "server/rpc/status_mapping.h"

namespace kvpool::server {
namespace {

using Call = v1::PipelineRequest::Call;
using Answer = v1::PipelineResponse::Answer;

// The session that the stream is attached to is the call's, whether it says so or not.
template <typename Request>
absl::Status TakeSession(absl::string_view session_id, Request& request) {
  if (request.session_id().empty()) {
    request.set_session_id(std::string(session_id));
  } else if (request.session_id() != session_id) {
    return absl::InvalidArgumentError(
        "session_id of a call is not that of the stream; leave it empty");
  }
  return absl::OkStatus();
}

template <typename Request>
absl::Status TakeWaiting(absl::string_view session_id, Request& request) {
  if (request.has_wait()) {
    return absl::InvalidArgumentError(
        "wait is set; calls on a Pipeline do not wait, as others come after them");
  }
  return TakeSession(session_id, request);
}

absl::Status TakeSession(absl::string_view session_id, Call& call) {
  switch (call.call_case()) {
    case Call::kAlloc:
      return TakeWaiting(session_id, *call.mutable_alloc());
    case Call::kIncRef:
      return TakeSession(session_id, *call.mutable_inc_ref());
    case Call::kDecRef:
      return TakeSession(session_id, *call.mutable_dec_ref());
    case Call::kPublish:
      return TakeSession(session_id, *call.mutable_publish());
    case Call::kLookup:
      return TakeSession(session_id, *call.mutable_lookup());
    case Call::kAcquire:
      return TakeWaiting(session_id, *call.mutable_acquire());
    case Call::kEvict:
      return TakeSession(session_id, *call.mutable_evict());
    case Call::CALL_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a call is of no method that a Pipeline has");
}

}  // namespace

void SetStatus(const absl::Status& status, Answer& answer) {
  if (status.ok()) return;
  answer.clear_answer();
  answer.set_code(static_cast<int>(status.code()));
  answer.set_message(SafeMessage(status.message()));
  *answer.mutable_error() = ToErrorDetail(status);
}

void RunPipelinedCall(const ServiceContext& context, const Peer& peer, absl::string_view session_id,
                      Call& call, Answer& answer, const std::function<void()>& done) {
  const auto end = [&answer, &done](const absl::Status& status) {
    SetStatus(status, answer);
    done();
  };
  if (const absl::Status status = TakeSession(session_id, call); !status.ok()) {
    end(status);
    return;
  }
  switch (call.call_case()) {
    case Call::kAlloc:
      AllocAtOnce(context, peer, call.alloc(), *answer.mutable_alloc(), end);
      break;
    case Call::kIncRef:
      answer.mutable_inc_ref();
      end(IncRef(context, peer, call.inc_ref()));
      break;
    case Call::kDecRef:
      end(DecRef(context, peer, call.dec_ref(), *answer.mutable_dec_ref()));
      break;
    case Call::kPublish:
      end(Publish(context, peer, call.publish(), *answer.mutable_publish()));
      break;
    case Call::kLookup:
      end(Lookup(context, peer, call.lookup(), *answer.mutable_lookup()));
      break;
    case Call::kAcquire:
      AcquireAtOnce(context, peer, call.acquire(), *answer.mutable_acquire(), end);
      break;
    case Call::kEvict:
      end(Evict(context, peer, call.evict(), *answer.mutable_evict()));
      break;
    case Call::CALL_NOT_SET:
      break;  // TakeSession has refused it.
  }
}

}  // namespace kvpool::server
