#include "server/rpc/cache_calls.h"

#include <span>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/error.h"
#include "core/pool.h"
#include "core/status_macros.h"
#include "server/rpc/convert.h"
#include "server/rpc/prefix_convert.h"

namespace kvpool::server {
namespace {

// The tokens of the blocks that the request publishes, for those who watch; none where it has
// hashes, is wrong (the ledger says how), or where a block has so many that a message is too short.
std::span<const uint32_t> TokensOfBlocks(const v1::PublishRequest& request, uint32_t block_size) {
  constexpr uint32_t kMaxTokensABlock = 65'536;
  if (block_size > kMaxTokensABlock) return {};
  const auto& tokens = request.prefix().tokens();
  const uint64_t first = uint64_t{request.skip()} * block_size;
  const uint64_t count = static_cast<uint64_t>(request.blocks().block_ids_size()) * block_size;
  if (first + count > static_cast<uint64_t>(tokens.size())) return {};
  return {tokens.data() + first, count};
}

// `error`, or what it means where the request's tokens fill more or fewer blocks than it names: the
// ledger counts blocks alone.
absl::Status WithTokenCounts(const absl::Status& error, const v1::PublishRequest& request,
                             uint32_t block_size) {
  if (!absl::IsInvalidArgument(error) || request.prefix().block_hashes_size() > 0) return error;
  const auto given = static_cast<uint64_t>(request.prefix().tokens_size());
  const auto count = static_cast<uint64_t>(request.blocks().block_ids_size());
  const uint64_t covered = request.skip() + count;
  if (given / block_size == covered) return error;
  return MakeError(
      absl::StatusCode::kInvalidArgument, GetErrorDetail(error),
      absl::StrCat("the prefix has ", given, " tokens, which fill ", given / block_size,
                   " blocks of ", block_size, "; skip ", request.skip(), " and ", count,
                   " blocks need ", covered * block_size, " tokens"));
}

}  // namespace

absl::Status Publish(const ServiceContext& context, const Peer& peer,
                     const v1::PublishRequest& request, v1::PublishResponse& response) {
  KVPOOL_ASSIGN_OR_RETURN(const SessionCall session,
                          FindSession(context.sessions, "session_id", request.session_id()));
  const uint32_t max = context.limits.max_blocks_per_call;
  KVPOOL_ASSIGN_OR_RETURN(const std::vector<BlockRef> blocks,
                          ToBlockRefs("blocks", request.blocks(), max));
  // One more than a call may have, so that the ledger sees what is too long.
  KVPOOL_ASSIGN_OR_RETURN(const PrefixKeys prefix,
                          ToPrefixKeys(session, peer, request.prefix(), max + size_t{1}));
  const uint32_t block_size = *session.pool->layout().spec.block_size;
  const absl::StatusOr<PublishAnswer> answer =
      session.pool->Publish({.caller = {.session = session.session, .tenant = peer.tenant},
                             .prefix = &prefix,
                             .adapter = request.prefix().space().adapter(),
                             .skip = request.skip(),
                             .blocks = blocks,
                             .tokens = TokensOfBlocks(request, block_size),
                             .idempotency_key = request.idempotency_key()});
  if (!answer.ok()) return WithTokenCounts(answer.status(), request, block_size);
  response.set_published(answer->published);
  for (const Duplicate& duplicate : answer->duplicates) {
    v1::PublishResponse::Duplicate& message = *response.add_duplicates();
    message.set_index(duplicate.index);
    message.set_block_id(ToIndex(duplicate.known.block));
    message.set_generation(static_cast<uint64_t>(duplicate.known.generation));
  }
  FromKey(answer->last_key, *response.mutable_last_key());
  return absl::OkStatus();
}

absl::Status Lookup(const ServiceContext& context, const Peer& peer,
                    const v1::LookupRequest& request, v1::LookupResponse& response) {
  KVPOOL_ASSIGN_OR_RETURN(const SessionCall session,
                          FindSession(context.sessions, "session_id", request.session_id()));
  KVPOOL_ASSIGN_OR_RETURN(const PrefixKeys prefix,
                          ToPrefixKeys(session, peer, request.prefix(),
                                       context.limits.max_blocks_per_call + size_t{1}));
  KVPOOL_ASSIGN_OR_RETURN(
      const LookupAnswer answer,
      session.pool->Lookup({.caller = {.session = session.session, .tenant = peer.tenant},
                            .prefix = &prefix,
                            .acquire = request.acquire(),
                            .idempotency_key = request.idempotency_key()}));
  FromBlockRefs(answer.blocks, *response.mutable_blocks());
  response.set_matched_tokens(uint64_t{answer.blocks.size()} *
                              *session.pool->layout().spec.block_size);
  FromKey(answer.last_key, *response.mutable_last_key());
  return absl::OkStatus();
}

absl::Status Evict(const ServiceContext& context, const Peer& peer, const v1::EvictRequest& request,
                   v1::EvictResponse& response) {
  KVPOOL_ASSIGN_OR_RETURN(const SessionCall session,
                          FindSession(context.sessions, "session_id", request.session_id()));
  KVPOOL_ASSIGN_OR_RETURN(
      const std::vector<BlockRef> blocks,
      ToBlockRefs("blocks", request.blocks(), context.limits.max_blocks_per_call));
  KVPOOL_ASSIGN_OR_RETURN(
      const EvictAnswer answer,
      session.pool->Evict({.caller = {.session = session.session, .tenant = peer.tenant},
                           .count = request.count(),
                           .blocks = blocks}));
  response.mutable_block_ids()->Reserve(static_cast<int>(answer.blocks.size()));
  for (const BlockId block : answer.blocks) response.add_block_ids(ToIndex(block));
  response.set_freed(answer.freed);
  return absl::OkStatus();
}

}  // namespace kvpool::server
