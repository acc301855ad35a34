// Session's calls of the prefix cache.
#include <utility>

#include "absl/strings/str_cat.h"

#include "client/convert.h"
#include "client/leased_reference.h"
#include "client/session.h"
#include "client/session_core.h"
#include "core/status_macros.h"
#include "proto/convert/layout_convert.h"

namespace kvpool::client {
namespace {

absl::Status PrefixToProto(const Prefix& prefix, v1::Prefix& proto) {
  KVPOOL_RETURN_IF_ERROR(CheckUtf8("adapter", prefix.adapter));
  if (!prefix.adapter.empty()) proto.mutable_space()->set_adapter(prefix.adapter);
  if (!prefix.salt.empty()) proto.mutable_space()->set_salt(prefix.salt);
  proto.mutable_tokens()->Add(prefix.tokens.begin(), prefix.tokens.end());
  for (const std::string& hash : prefix.block_hashes) proto.add_block_hashes(hash);
  proto.set_parent_key(prefix.parent_key);
  for (const Prefix::Extra& extra : prefix.extras) {
    v1::Prefix::Extra& message = *proto.add_extras();
    message.set_first_token(extra.first_token);
    message.set_token_count(extra.token_count);
    message.set_hash(extra.hash);
  }
  return absl::OkStatus();
}

absl::StatusOr<Evicted> ReadEvicted(const v1::EvictResponse& response, uint32_t num_blocks) {
  Evicted evicted{.freed = response.freed()};
  evicted.blocks.reserve(static_cast<size_t>(response.block_ids_size()));
  for (const uint32_t id : response.block_ids()) {
    if (id >= num_blocks) return Nonsense(absl::StrCat("block ", id, " of ", num_blocks));
    evicted.blocks.push_back(BlockId{id});
  }
  return evicted;
}

}  // namespace

absl::StatusOr<Published> Session::Publish(const Prefix& prefix, std::span<const BlockRef> blocks,
                                           uint32_t skip) {
  v1::PublishRequest request;
  request.set_session_id(id().ToString());
  KVPOOL_RETURN_IF_ERROR(PrefixToProto(prefix, *request.mutable_prefix()));
  request.set_skip(skip);
  BlocksToProto(blocks, *request.mutable_blocks());
  request.set_idempotency_key(core_->NextKey());
  v1::PublishResponse response;
  KVPOOL_RETURN_IF_ERROR(core_->Call(&Transport::Publish, request, response));
  Published published{.count = response.published(), .last_key = response.last_key()};
  for (const v1::PublishResponse::Duplicate& duplicate : response.duplicates()) {
    if (duplicate.index() >= blocks.size()) {
      return Nonsense(absl::StrCat("duplicate ", duplicate.index(), " of ", blocks.size()));
    }
    KVPOOL_ASSIGN_OR_RETURN(
        const BlockRef known,
        BlockFromProto(duplicate.block_id(), duplicate.generation(), layout().num_blocks));
    published.duplicates.push_back({.index = duplicate.index(), .known = known});
  }
  return published;
}

absl::StatusOr<FoundPrefix> Session::Lookup(const Prefix& prefix) {
  v1::LookupRequest request;
  request.set_session_id(id().ToString());
  KVPOOL_RETURN_IF_ERROR(PrefixToProto(prefix, *request.mutable_prefix()));
  request.set_acquire(true);
  request.set_idempotency_key(core_->NextKey());
  v1::LookupResponse response;
  KVPOOL_RETURN_IF_ERROR(core_->Call(&Transport::Lookup, request, response));
  KVPOOL_ASSIGN_OR_RETURN(const std::vector<BlockRef> refs,
                          BlocksFromProto(response.blocks(), layout().num_blocks));
  return FoundPrefix{.blocks = MakeLeases(refs),
                     .matched_tokens = response.matched_tokens(),
                     .last_key = response.last_key()};
}

absl::StatusOr<PrefixHint> Session::Peek(const Prefix& prefix) {
  v1::LookupRequest request;
  request.set_session_id(id().ToString());
  KVPOOL_RETURN_IF_ERROR(PrefixToProto(prefix, *request.mutable_prefix()));
  v1::LookupResponse response;
  KVPOOL_RETURN_IF_ERROR(core_->Call(&Transport::Lookup, request, response));
  PrefixHint hint{.matched_tokens = response.matched_tokens(), .last_key = response.last_key()};
  KVPOOL_ASSIGN_OR_RETURN(hint.blocks, BlocksFromProto(response.blocks(), layout().num_blocks));
  return hint;
}

absl::StatusOr<AcquiredBlocks> Session::Acquire(const Prefix& prefix, uint32_t total_blocks,
                                                const AcquireOptions& options) {
  KVPOOL_RETURN_IF_ERROR(core_->CheckUsable());
  const Duration wait = core_->ClampWait(options.wait);
  v1::AcquireRequest request;
  request.set_session_id(id().ToString());
  KVPOOL_RETURN_IF_ERROR(PrefixToProto(prefix, *request.mutable_prefix()));
  request.set_total_blocks(total_blocks);
  request.set_max_new_blocks(options.max_new_blocks);
  if (wait > Duration::zero()) *request.mutable_wait() = DurationToProto(wait);
  request.set_fill(FillToProto(options.fill));
  request.set_idempotency_key(core_->NextKey());

  core_->releaser().Wait();
  v1::AcquireResponse response;
  KVPOOL_RETURN_IF_ERROR(core_->Call(&Transport::Acquire, request, response, wait));
  KVPOOL_ASSIGN_OR_RETURN(const std::vector<BlockRef> refs,
                          BlocksFromProto(response.blocks(), layout().num_blocks));
  if (response.matched_blocks() > refs.size()) {
    return Nonsense(
        absl::StrCat(response.matched_blocks(), " blocks matched, ", refs.size(), " given"));
  }
  return AcquiredBlocks{.blocks = MakeLeases(refs),
                        .matched_blocks = response.matched_blocks(),
                        .last_key = response.last_key()};
}

absl::StatusOr<Evicted> Session::Evict(std::span<const BlockRef> blocks) {
  v1::EvictRequest request;
  request.set_session_id(id().ToString());
  BlocksToProto(blocks, *request.mutable_blocks());
  v1::EvictResponse response;
  KVPOOL_RETURN_IF_ERROR(core_->Call(&Transport::Evict, request, response));
  return ReadEvicted(response, layout().num_blocks);
}

absl::StatusOr<Evicted> Session::EvictNext(uint32_t count) {
  v1::EvictRequest request;
  request.set_session_id(id().ToString());
  request.set_count(count);
  v1::EvictResponse response;
  // The API gives it no key: a second one would evict as many again.
  KVPOOL_RETURN_IF_ERROR(core_->CallOnce(&Transport::Evict, request, response));
  return ReadEvicted(response, layout().num_blocks);
}

absl::Status Session::Done(std::span<BlockLease> leases) {
  KVPOOL_RETURN_IF_ERROR(core_->CheckUsable());
  KVPOOL_ASSIGN_OR_RETURN(const std::vector<BlockRef> refs, CheckRelease(leases));
  if (refs.empty()) return absl::OkStatus();
  absl::Status status = core_->DecRef(refs, /*done=*/true);
  EndReleased(leases, status);
  return status;
}

}  // namespace kvpool::client
