#include "server/rpc/reference_calls.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <spdlog/spdlog.h>

#include "core/error.h"
#include "core/pool.h"
#include "core/status_macros.h"
#include "server/rpc/convert.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {
namespace {

// A fault in a worker's bookkeeping: its log line shows how the block came to be where it is. Of a
// worker that makes it all the time, some lines say how many there were.
void LogRefusedDecRef(const ServiceContext& context, const Peer& peer, const SessionCall& session,
                      const absl::Status& status) {
  const ErrorDetail detail = GetErrorDetail(status);
  if (detail.reason != Reason::kNotHeld && detail.reason != Reason::kStaleBlock) return;
  const std::optional<uint64_t> left_out = peer.process->log_budget().Take(context.clock());
  if (!left_out.has_value()) return;
  const absl::string_view reason = ReasonName(detail.reason);
  spdlog::warn(
      "event=dec_ref_refused pool={} session={} reason={} index={} block={} trace=\"{}\" "
      "left_out={}",
      session.pool->layout().spec.name, session.session.Short(), std::string(reason), detail.index,
      detail.block_id, session.pool->TraceLine(BlockId{detail.block_id}), *left_out);
}

}  // namespace

absl::Status IncRef(const ServiceContext& context, const Peer& peer,
                    const v1::IncRefRequest& request) {
  KVPOOL_ASSIGN_OR_RETURN(const SessionCall session,
                          FindSession(context.sessions, "session_id", request.session_id()));
  KVPOOL_ASSIGN_OR_RETURN(
      const std::vector<BlockRef> blocks,
      ToBlockRefs("blocks", request.blocks(), context.limits.max_blocks_per_call));
  return session.pool->IncRef({.caller = {.session = session.session, .tenant = peer.tenant},
                               .blocks = blocks,
                               .idempotency_key = request.idempotency_key()});
}

absl::Status DecRef(const ServiceContext& context, const Peer& peer,
                    const v1::DecRefRequest& request, v1::DecRefResponse& response) {
  KVPOOL_ASSIGN_OR_RETURN(const SessionCall session,
                          FindSession(context.sessions, "session_id", request.session_id()));
  KVPOOL_ASSIGN_OR_RETURN(
      const std::vector<BlockRef> blocks,
      ToBlockRefs("blocks", request.blocks(), context.limits.max_blocks_per_call));
  const absl::StatusOr<DecRefAnswer> answer =
      session.pool->DecRef({.caller = {.session = session.session, .tenant = peer.tenant},
                            .blocks = blocks,
                            .done = request.done(),
                            .idempotency_key = request.idempotency_key()});
  if (!answer.ok()) {
    LogRefusedDecRef(context, peer, session, answer.status());
    return answer.status();
  }
  response.set_freed(answer->freed);
  response.set_cached(answer->cached);
  response.set_available(answer->available);
  return absl::OkStatus();
}

}  // namespace kvpool::server
