#include "core/ledger/cache_desk.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

absl::Status BlockError(absl::StatusCode code, Reason reason, size_t index, BlockId block,
                        absl::string_view what) {
  return MakeError(
      code, {.reason = reason, .index = static_cast<uint32_t>(index), .block_id = ToIndex(block)},
      absl::StrCat("entry ", index, ": block ", ToIndex(block), " ", what));
}

absl::Status CheckLength(const PrefixKeys& prefix, uint32_t max_blocks) {
  if (prefix.blocks.size() <= max_blocks) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kInvalidArgument, {},
      absl::StrCat("prefix of ", prefix.blocks.size(), " blocks, at most ", max_blocks, " a call"));
}

// The first entry that names a block named before it.
std::optional<size_t> FindRepeat(std::span<const BlockRef> blocks) {
  absl::flat_hash_set<BlockId> seen;
  seen.reserve(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (!seen.insert(blocks[i].block).second) return i;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<PublishAnswer> CacheDesk::Publish(Session& session, const PublishCall& call,
                                                 TimePoint now) {
  const uint64_t key = call.idempotency_key;
  const uint64_t request = key == 0 ? 0 : KeyedCalls::Hash(call);
  KVPOOL_ASSIGN_OR_RETURN(const KeyedAnswer* known, keys_.Find(session, key, request));
  if (known != nullptr) return std::get<PublishAnswer>(*known);
  KVPOOL_RETURN_IF_ERROR(CheckPublish(session, call));
  PrefixCache& cache = state_.references.cache();
  const Cause cause = {"Publish", session.id, now};
  const SpaceNames space = {.root = call.prefix->root,
                            .tenant = session.tenant,
                            .model_id = session.model_id,
                            .adapter = call.adapter};
  PublishAnswer answer;
  answer.last_key = call.prefix->LastKey(call.prefix->blocks.size());
  EntrySlot parent = *cache.ParentOf(*call.prefix, call.skip);
  const size_t tokens_a_block = call.blocks.empty() ? 0 : call.tokens.size() / call.blocks.size();
  for (size_t i = 0; i < call.blocks.size(); ++i) {
    const BlockId block = call.blocks[i].block;
    const bool was_the_caches =
        state_.references.blocks().record(block).has(BlockRecord::kFindable);
    const InsertResult result =
        cache.Insert(call.prefix->blocks[call.skip + i], block, parent, space,
                     call.tokens.subspan(i * tokens_a_block, tokens_a_block), now);
    parent = result.entry;
    if (result.is_new) {
      ++answer.published;
      // One that a reset left has the cache's reference still.
      if (!was_the_caches) state_.references.SetFindable(block, cause);
    } else if (const BlockId found = cache.index().at(result.entry).block; found != block) {
      answer.duplicates.push_back(
          {.index = static_cast<uint32_t>(i), .known = state_.references.RefOf(found)});
    }
  }
  cache.EndRun();
  if (key != 0) keys_.Remember(session, key, request, answer);
  return answer;
}

absl::Status CacheDesk::CheckPublish(const Session& session, const PublishCall& call) {
  KVPOOL_RETURN_IF_ERROR(SessionTable::RequireModel(session));
  KVPOOL_RETURN_IF_ERROR(CheckLength(*call.prefix, state_.options.limits.max_blocks_per_call));
  const uint64_t covered = uint64_t{call.skip} + call.blocks.size();
  if (covered != call.prefix->blocks.size()) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, {},
        absl::StrCat("the prefix has ", call.prefix->blocks.size(), " full blocks, but skip ",
                     call.skip, " and ", call.blocks.size(), " blocks are ", covered));
  }
  if (const std::optional<size_t> repeat = FindRepeat(call.blocks); repeat.has_value()) {
    return BlockError(absl::StatusCode::kInvalidArgument, Reason::kUnspecified, *repeat,
                      call.blocks[*repeat].block, "is named twice");
  }
  if (!state_.references.cache().ParentOf(*call.prefix, call.skip).has_value()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kParentUnknown},
                     call.skip > 0
                         ? absl::StrCat("the first ", call.skip, " blocks are not all findable")
                         : "the block of parent_key is not findable in this space");
  }
  for (size_t i = 0; i < call.blocks.size(); ++i) {
    KVPOOL_RETURN_IF_ERROR(CheckEntry(session, call, i));
  }
  return absl::OkStatus();
}

absl::Status CacheDesk::CheckEntry(const Session& session, const PublishCall& call,
                                   size_t index) const {
  const BlockRef& ref = call.blocks[index];
  KVPOOL_RETURN_IF_ERROR(state_.references.CheckHeld(session, ref, index));
  const PrefixKey& key = call.prefix->blocks[call.skip + index];
  if (state_.references.cache().IsSealedOtherwise(ref.block, key)) {
    return BlockError(absl::StatusCode::kFailedPrecondition, Reason::kSealed, index, ref.block,
                      "is sealed under another prefix");
  }
  if (state_.claims.IsClaimed(ref.block)) {
    return BlockError(absl::StatusCode::kFailedPrecondition, Reason::kClaimed, index, ref.block,
                      "is claimed by a process that may still write to it");
  }
  if (state_.pin_table.is_written(ref.block)) {
    return BlockError(absl::StatusCode::kAborted, Reason::kBusy, index, ref.block,
                      "is being written to");
  }
  return absl::OkStatus();
}

absl::StatusOr<LookupAnswer> CacheDesk::Lookup(Session& session, const LookupCall& call,
                                               TimePoint now) {
  // A hint holds nothing: a repeat has nothing to fetch.
  const uint64_t key = call.acquire ? call.idempotency_key : 0;
  const uint64_t request = key == 0 ? 0 : KeyedCalls::Hash(call);
  KVPOOL_ASSIGN_OR_RETURN(const KeyedAnswer* known, keys_.Find(session, key, request));
  if (known != nullptr) return std::get<LookupAnswer>(*known);
  KVPOOL_RETURN_IF_ERROR(SessionTable::RequireModel(session));
  KVPOOL_RETURN_IF_ERROR(CheckLength(*call.prefix, state_.options.limits.max_blocks_per_call));
  References& references = state_.references;
  const std::vector<BlockId> found = references.cache().Match(*call.prefix, SIZE_MAX);
  LookupAnswer answer;
  answer.last_key = call.prefix->LastKey(found.size());
  answer.blocks.reserve(found.size());
  for (const BlockId block : found) answer.blocks.push_back(references.RefOf(block));
  if (!call.acquire) return answer;
  KVPOOL_ASSIGN_OR_RETURN(const AddEffect effect, references.CheckAddFound(session, found));
  KVPOOL_RETURN_IF_ERROR(allowance_.CheckAdd(session, effect));
  if (!call.prefix->blocks.empty()) references.cache().CountRequest(now);
  for (const BlockId block : found) {
    references.Add(session, block, TraceOperation::kAcquire, {"Lookup", session.id, now});
    references.cache().Use(block, now);
  }
  if (key != 0) keys_.Remember(session, key, request, answer);
  return answer;
}

absl::StatusOr<EvictAnswer> CacheDesk::Evict(Session& session, const EvictCall& call,
                                             TimePoint now) {
  if (call.count > 0 && !call.blocks.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, {}, "blocks and count exclude each other");
  }
  if (call.count > state_.options.limits.max_blocks_per_call) {
    return MakeError(absl::StatusCode::kInvalidArgument, {},
                     absl::StrCat("count ", call.count, " is more than ",
                                  state_.options.limits.max_blocks_per_call, " blocks a call"));
  }
  if (call.count > 0) return EvictCount(session, call.count, now);
  KVPOOL_RETURN_IF_ERROR(CheckEvict(session, call.blocks));
  return EvictListed(session, call.blocks, now);
}

absl::Status CacheDesk::CheckEvict(const Session& session, std::span<const BlockRef> blocks) {
  const References& references = state_.references;
  const PrefixCache& cache = references.cache();
  absl::flat_hash_set<BlockId> listed;
  absl::flat_hash_map<BlockId, uint32_t> listed_children;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const BlockId block = blocks[i].block;
    if (!IsFindable(blocks[i])) continue;
    if (references.blocks().record(block).tenant != session.tenant) {
      return BlockError(absl::StatusCode::kPermissionDenied, Reason::kUnspecified, i, block,
                        "is another tenant's");
    }
    if (listed.insert(block).second) ++listed_children[cache.parent(block)];
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const BlockId block = blocks[i].block;
    if (!listed.contains(block)) continue;
    const auto children = listed_children.find(block);
    const uint32_t count = children == listed_children.end() ? 0 : children->second;
    if (count < cache.child_count(block)) {
      return BlockError(absl::StatusCode::kFailedPrecondition, Reason::kNotLeaf, i, block,
                        absl::StrCat("has ", cache.child_count(block) - count,
                                     " findable children that are not listed"));
    }
  }
  return absl::OkStatus();
}

bool CacheDesk::IsFindable(const BlockRef& ref) const {
  const References& references = state_.references;
  if (!references.cache().is_findable(ref.block)) return false;
  const Generation generation{references.blocks().record(ref.block).generation};
  return ref.generation == Generation{} || ref.generation == generation;
}

EvictAnswer CacheDesk::EvictListed(const Session& session, std::span<const BlockRef> blocks,
                                   TimePoint now) {
  PrefixCache& cache = state_.references.cache();
  absl::flat_hash_set<BlockId> listed;
  for (const BlockRef& ref : blocks) {
    if (IsFindable(ref)) listed.insert(ref.block);
  }
  EvictAnswer answer;
  answer.blocks.reserve(listed.size());
  for (const BlockRef& ref : blocks) {
    // Up from each leaf, as far as what was its last child has gone.
    BlockId block = ref.block;
    while (listed.contains(block) && cache.child_count(block) == 0) {
      const BlockId parent = cache.parent(block);
      listed.erase(block);
      cache.Remove(block, now);
      const BlockState state = state_.references.ClearFindable(block, {"Evict", session.id, now});
      answer.blocks.push_back(block);
      if (state == BlockState::kFree) ++answer.freed;
      block = parent;
    }
  }
  return answer;
}

EvictAnswer CacheDesk::EvictCount(const Session& session, uint32_t count, TimePoint now) {
  PrefixCache& cache = state_.references.cache();
  const Cause cause = {"Evict", session.id, now};
  EvictAnswer answer;
  // What a reset left is on the way out already and does not count.
  uint64_t steps = uint64_t{count} + state_.options.limits.reclaim_slice;
  while (answer.blocks.size() < count && steps-- > 0) {
    const std::optional<BlockId> block = cache.Choose(session.tenant, now);
    if (!block.has_value()) break;
    const bool was_old = cache.is_old(*block);
    cache.Evict(*block, now);
    state_.references.ClearFindable(*block, cause);
    if (!was_old) answer.blocks.push_back(*block);
  }
  answer.freed = static_cast<uint32_t>(answer.blocks.size());
  return answer;
}

uint32_t CacheDesk::Reset(TenantSlot tenant, TimePoint now) {
  const uint32_t forgotten = state_.references.cache().Reset(tenant);
  evictor_.DropOld(tenant, state_.options.limits.reclaim_slice,
                   {"ResetPrefixes", SessionId{}, now});
  return forgotten;
}

void CacheDesk::ReclaimOld(uint32_t budget, TimePoint now) {
  evictor_.DropOld(kNoTenant, budget, {"ResetPrefixes", SessionId{}, now});
}

}  // namespace kvpool
