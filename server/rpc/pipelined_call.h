#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "kvpool/v1/block.pb.h"
#include "server/peer.h"
#include "server/rpc/services.h"

namespace kvpool::server {

// Runs a call of a Pipeline in the session's name, as the unary method would be, and fills
// `answer`; `done` is called once, at once or, where blocks are to be filled, later on any thread.
// All that is referred to must live until then.
//
// A call with a `wait`, of another session, or of no method at all is INVALID_ARGUMENT.
void RunPipelinedCall(const ServiceContext& context, const Peer& peer, absl::string_view session_id,
                      v1::PipelineRequest::Call& call, v1::PipelineResponse::Answer& answer,
                      const std::function<void()>& done);

// Makes `answer` say that the call failed, unless the status is OK.
void SetStatus(const absl::Status& status, v1::PipelineResponse::Answer& answer);

}  // namespace kvpool::server
