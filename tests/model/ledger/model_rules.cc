#include "tests/model/ledger/model_rules.h"

#include <algorithm>
#include <map>
#include <utility>

namespace kvpool::test {
namespace {

bool IsStale(const ModelState& state, const BlockRef& ref) {
  return ref.generation != Generation{} &&
         ref.generation != state.blocks[ToIndex(ref.block)].generation;
}

bool IsPending(const ModelState& state, const SessionId& session, uint64_t key) {
  const auto is_waiting = [&](const ModelState::Waiter& waiter) {
    return waiter.call.caller.session == session && waiter.call.idempotency_key == key;
  };
  const auto is_filling = [&](const ModelState::Fill& fill) {
    return fill.answer != PendingId{} && fill.session == session && fill.key == key;
  };
  return std::ranges::any_of(state.waiters[0], is_waiting) ||
         std::ranges::any_of(state.waiters[1], is_waiting) ||
         std::ranges::any_of(state.fills, is_filling);
}

}  // namespace

Verdicts CheckSession(const ModelState& state, const Caller& caller, bool may_be_joined) {
  if (!state.IsLive(caller.session)) return Unknown();
  const ModelState::Session& session = state.sessions.at(caller.session);
  if (absl::string_view(session.tenant) != caller.tenant) {
    return Error(absl::StatusCode::kPermissionDenied);
  }
  if (session.joined.has_value() && !may_be_joined) {
    return Error(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kJoined});
  }
  return Ok();
}

Verdicts CheckOpen(const ModelState& state, const OpenSessionCall& call) {
  Verdicts all;
  const auto add = [&all](const Verdicts& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  if (call.join.has_value()) {
    const Verdicts join = CheckSession(state, {.session = *call.join, .tenant = call.tenant},
                                       /*may_be_joined=*/false);
    if (!join.front().ok()) add(join);
  }
  const uint32_t quota = state.options.max_blocks_per_tenant;
  const uint32_t guarantee = call.guaranteed_blocks;
  if ((call.join.has_value() && (guarantee > 0 || !call.model_id.empty())) ||
      guarantee > state.options.num_blocks || (quota > 0 && guarantee > quota)) {
    add(Error(absl::StatusCode::kInvalidArgument));
  }
  if (state.sessions.size() >= state.options.limits.max_sessions) {
    add(Error(absl::StatusCode::kResourceExhausted, {.reason = Reason::kLimit}));
  }
  const auto has_process = [&](const auto& entry) {
    return entry.second.processes.contains(call.process);
  };
  const auto of_process = std::ranges::count_if(state.sessions, has_process);
  if (std::cmp_greater_equal(of_process, state.options.limits.max_process_sessions)) {
    add(Error(absl::StatusCode::kResourceExhausted, {.reason = Reason::kLimit}));
  }
  if (guarantee > 0 && guarantee + state.Promised() > state.CountRoom()) {
    add(Error(absl::StatusCode::kResourceExhausted, {.reason = Reason::kGuarantee}));
  }
  return all.empty() ? Ok() : all;
}

Verdicts CheckVouch(const ModelState& state, const SessionId& id) {
  const auto it = state.sessions.find(id);
  if (it == state.sessions.end()) return Unknown();
  if (it->second.is_live || !state.IsOver(id)) return Ok();
  // It ended, with nobody left to claim, and is being dropped in slices.
  Verdicts both = Ok();
  Append(&both, Unknown());
  return it->second.is_vouched ? Unknown() : both;
}

Verdicts CheckList(const ModelState& state, std::span<const BlockRef> blocks) {
  const bool is_out_of_range = std::ranges::any_of(
      blocks, [&](const BlockRef& ref) { return ToIndex(ref.block) >= state.options.num_blocks; });
  return is_out_of_range || blocks.size() > state.options.limits.max_blocks_per_call
             ? Error(absl::StatusCode::kInvalidArgument)
             : Ok();
}

Verdicts CheckDrops(const ModelState& state, const SessionId& session,
                    std::span<const BlockRef> blocks) {
  std::map<uint32_t, uint32_t> dropped;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint32_t block = ToIndex(blocks[i].block);
    if (dropped[block]++ == state.RefCount(block, session)) {
      return Wrong(Reason::kNotHeld, i, block);
    }
    if (IsStale(state, blocks[i])) return Wrong(Reason::kStaleBlock, i, block);
  }
  return Ok();
}

Verdicts CheckHolds(const ModelState& state, const SessionId& session,
                    std::span<const BlockRef> blocks, bool is_writing) {
  Verdicts verdicts;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint32_t block = ToIndex(blocks[i].block);
    if (state.RefCount(block, session) == 0) {
      Append(&verdicts, Wrong(Reason::kNotHeld, i, block));
      return verdicts;
    }
    if (IsStale(state, blocks[i])) {
      Append(&verdicts, Wrong(Reason::kStaleBlock, i, block));
      return verdicts;
    }
    if (is_writing && state.blocks[block].sealed.has_value()) {
      Append(&verdicts, Wrong(Reason::kSealed, i, block));
      return verdicts;
    }
    if (!is_writing || !state.IsClaimed(block)) continue;
    Append(&verdicts, Wrong(Reason::kClaimed, i, block));
    return verdicts;
  }
  Append(&verdicts, Ok());
  return verdicts;
}

Verdicts CheckIncs(const ModelState& state, const SessionId& session,
                   std::span<const BlockRef> blocks) {
  const std::string& tenant = state.sessions.at(session).tenant;
  std::map<uint32_t, uint32_t> added;  // By earlier entries.
  Verdicts wrong;
  for (size_t i = 0; i < blocks.size() && wrong.empty(); ++i) {
    const uint32_t block = ToIndex(blocks[i].block);
    const BlockState block_state = state.StateOf(block);
    const bool is_held = state.RefCount(block, session) > 0 || added.contains(block);
    if (!is_held && blocks[i].generation == Generation{}) {
      wrong = Wrong(Reason::kNotHeld, i, block);
    } else if (IsStale(state, blocks[i])) {
      wrong = Wrong(Reason::kStaleBlock, i, block);
    } else if (block_state != BlockState::kHeld && block_state != BlockState::kCached) {
      wrong = Wrong(Reason::kNotLive, i, block);
    } else if (state.blocks[block].tenant != tenant) {
      wrong = Error(absl::StatusCode::kPermissionDenied);
    } else if (state.SharedRefs(block) + added[block] >=
               state.options.limits.max_references_per_block) {
      wrong = Error(absl::StatusCode::kResourceExhausted, {.reason = Reason::kLimit});
    } else {
      ++added[block];
    }
  }
  std::vector<uint32_t> taken;
  taken.reserve(added.size());
  for (const auto& [block, references] : added) taken.push_back(block);
  // What room there is for is judged of all entries together, or of those before a wrong one.
  const Verdicts room = CheckTakes(state, session, taken);
  if (!room.front().ok()) Append(&wrong, room);
  return wrong.empty() ? Ok() : wrong;
}

Verdicts CheckTakes(const ModelState& state, const SessionId& session,
                    std::span<const uint32_t> blocks) {
  uint32_t cached = 0;
  uint32_t shared = 0;
  for (const uint32_t block : blocks) {
    const bool is_cached = state.StateOf(block) == BlockState::kCached;
    cached += is_cached ? 1U : 0U;
    shared += !is_cached && state.RefCount(block, session) == 0 ? 1U : 0U;
  }
  const uint32_t available = state.Unreserved(session, /*is_first=*/true, shared);
  if (cached == 0 || cached <= available) return Ok();
  return Error(absl::StatusCode::kResourceExhausted,
               {.reason = Reason::kPoolFull, .available = available});
}

const ModelState::Remembered* Recall(const ModelState& state, const SessionId& session,
                                     uint64_t key, const std::string& request, Verdicts* verdicts) {
  const auto& answers = state.sessions.at(session).answers;
  const auto known = std::ranges::find(answers, key, &ModelState::Remembered::key);
  if (key == 0 || known == answers.end()) return nullptr;
  *verdicts = Ok();
  if (known->request != request) {
    *verdicts = Error(absl::StatusCode::kInvalidArgument);
  } else if (const auto* answer = std::get_if<AllocAnswer>(&known->answer)) {
    if (!CheckHolds(state, session, answer->blocks, /*is_writing=*/false).front().ok()) {
      *verdicts = Error(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kKeySpent});
    }
  } else if (const auto* found = std::get_if<LookupAnswer>(&known->answer)) {
    if (!CheckHolds(state, session, found->blocks, /*is_writing=*/false).front().ok()) {
      *verdicts = Error(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kKeySpent});
    }
  }
  return &*known;
}

Verdicts CheckKey(const ModelState& state, const SessionId& session, uint64_t key,
                  const std::string& request, bool* is_new, const ModelState::Remembered** known) {
  Verdicts verdicts = Ok();
  *known = Recall(state, session, key, request, &verdicts);
  if (*known == nullptr && key != 0 && IsPending(state, session, key)) {
    verdicts = Error(absl::StatusCode::kInvalidArgument);
  }
  *is_new = *known == nullptr && verdicts.front().ok();
  return verdicts;
}

Verdicts CheckPin(const ModelState& state, const ModelState::Pin& pin) {
  if (!state.IsLive(pin.reader)) return Unknown();
  Verdicts reads = CheckHolds(state, pin.reader, pin.reads, /*is_writing=*/false);
  if (!reads.front().ok()) {
    if (!state.IsLive(pin.writer)) Append(&reads, Unknown());
    return reads;
  }
  if (state.IsLive(pin.writer)) {
    return CheckHolds(state, pin.writer, pin.writes, /*is_writing=*/true);
  }
  // The session that holds what is written has ended: that, or what it does not hold, is told.
  Verdicts wrong = Unknown();
  for (size_t i = 0; i < pin.writes.size(); ++i) {
    Append(&wrong, Wrong(Reason::kNotHeld, i, ToIndex(pin.writes[i].block)));
  }
  return wrong;
}

}  // namespace kvpool::test
