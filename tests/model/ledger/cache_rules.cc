#include "tests/model/ledger/cache_rules.h"

#include "tests/model/ledger/model_rules.h"

namespace kvpool::test {
namespace {

bool IsStale(const ModelState& state, const BlockRef& ref) {
  return ref.generation != Generation{} &&
         ref.generation != state.blocks[ToIndex(ref.block)].generation;
}

bool IsWritten(const ModelState& state, uint32_t block) {
  for (const ModelState::Pin& pin : state.pins) {
    for (const BlockRef& ref : pin.writes) {
      if (pin.is_granted && ToIndex(ref.block) == block) return true;
    }
  }
  return false;
}

}  // namespace

Verdicts CheckPublish(const ModelState& state, const PublishCall& call) {
  const SessionId& session = call.caller.session;
  const std::vector<PrefixKey>& keys = call.prefix->blocks;
  std::set<uint32_t> named;
  for (const BlockRef& ref : call.blocks) named.insert(ToIndex(ref.block));
  if (state.sessions.at(session).model_id.empty() || named.size() != call.blocks.size() ||
      keys.size() != call.skip + call.blocks.size()) {
    return Error(absl::StatusCode::kInvalidArgument);
  }
  if (!state.IsParentKnown(*call.prefix) ||
      state.Match(*call.prefix, call.skip).size() < call.skip) {
    return Error(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kParentUnknown});
  }
  for (size_t i = 0; i < call.blocks.size(); ++i) {
    const uint32_t block = ToIndex(call.blocks[i].block);
    const std::optional<PrefixKey>& sealed = state.blocks[block].sealed;
    if (state.RefCount(block, session) == 0) return Wrong(Reason::kNotHeld, i, block);
    if (IsStale(state, call.blocks[i])) return Wrong(Reason::kStaleBlock, i, block);
    if (sealed.has_value() && sealed != keys[call.skip + i]) {
      return Wrong(Reason::kSealed, i, block);
    }
    if (state.IsClaimed(block)) return Wrong(Reason::kClaimed, i, block);
    if (IsWritten(state, block)) {
      return Error(absl::StatusCode::kAborted,
                   {.reason = Reason::kBusy, .index = static_cast<uint32_t>(i), .block_id = block});
    }
  }
  return Ok();
}

Verdicts CheckLookup(const ModelState& state, const LookupCall& call,
                     std::span<const uint32_t> hits) {
  for (const uint32_t block : hits) {
    if (state.SharedRefs(block) >= state.options.limits.max_references_per_block) {
      return Error(absl::StatusCode::kResourceExhausted, {.reason = Reason::kLimit});
    }
  }
  return CheckTakes(state, call.caller.session, hits);
}

Verdicts CheckEvict(const ModelState& state, const EvictCall& call, std::set<uint32_t>* listed) {
  for (size_t i = 0; i < call.blocks.size(); ++i) {
    const uint32_t block = ToIndex(call.blocks[i].block);
    if (!state.IsFindable(block) || IsStale(state, call.blocks[i])) continue;
    if (absl::string_view(state.blocks[block].tenant) != call.caller.tenant) {
      return Error(absl::StatusCode::kPermissionDenied);
    }
    listed->insert(block);
  }
  for (size_t i = 0; i < call.blocks.size(); ++i) {
    const uint32_t block = ToIndex(call.blocks[i].block);
    if (listed->contains(block) && state.HasChildren(block, *listed)) {
      return Wrong(Reason::kNotLeaf, i, block);
    }
  }
  return Ok();
}

}  // namespace kvpool::test
