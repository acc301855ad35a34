#include "core/ledger/pin_desk.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

constexpr absl::string_view kPinEnded = "byte operation over";

// Ascending, each once.
std::vector<BlockId> DistinctBlocks(std::span<const BlockRef> refs) {
  std::vector<BlockId> blocks;
  blocks.reserve(refs.size());
  for (const BlockRef& ref : refs) blocks.push_back(ref.block);
  std::ranges::sort(blocks);
  // Not std::ranges::unique: clang 14 cannot use the subrange of libstdc++ 12.
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  return blocks;
}

absl::Status WriteError(Reason reason, size_t index, BlockId block, absl::string_view what) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      {.reason = reason, .index = static_cast<uint32_t>(index), .block_id = ToIndex(block)},
      absl::StrCat("entry ", index, ": block ", ToIndex(block), " is ", what));
}

}  // namespace

absl::StatusOr<PinOutcome> PinDesk::Pin(Session& session, const PinCall& call) {
  KVPOOL_ASSIGN_OR_RETURN(const Session* writer, FindWriter(call));
  KVPOOL_RETURN_IF_ERROR(Check(session, *writer, call.reads, call.writes));
  const std::vector<BlockId> writes = DistinctBlocks(call.writes);
  std::vector<BlockId> reads;  // Without those that are written too: once alone is enough.
  std::ranges::set_difference(DistinctBlocks(call.reads), writes, std::back_inserter(reads));
  const PendingId id = state_.NextPending();
  const bool is_clear = state_.pin_table.Add(id, reads, writes);
  state_.pins.emplace(id, PinEntry{.session = session.id,
                                   .write_session = writer->id,
                                   .reads = WithGenerations(call.reads),
                                   .writes = WithGenerations(call.writes)});
  state_.sessions.BeginRunning(session);
  if (is_clear) {
    Grant(id);
  } else {
    session.pending.insert(id);
  }
  return PinOutcome{.id = id, .granted = is_clear};
}

void PinDesk::Unpin(PendingId id, TimePoint now) {
  KVPOOL_CHECK(state_.pin_table.is_granted(id));
  const auto found = state_.pins.find(id);
  KVPOOL_CHECK(found != state_.pins.end());
  const SessionId session_id = found->second.session;
  state_.pins.erase(found);
  Session* session = state_.sessions.Find(session_id);
  if (session != nullptr && session->is_live) state_.sessions.EndRunning(*session, now);
  Settle(state_.pin_table.Remove(id), {kPinEnded, session_id, now});
}

bool PinDesk::Cancel(PendingId id, TimePoint now) {
  const auto found = state_.pins.find(id);
  if (found == state_.pins.end() || state_.pin_table.is_granted(id)) return false;
  const SessionId session_id = found->second.session;
  state_.pins.erase(found);
  Session* session = state_.sessions.Find(session_id);
  KVPOOL_CHECK(session != nullptr);
  session->pending.erase(id);
  if (session->is_live) state_.sessions.EndRunning(*session, now);
  Settle(state_.pin_table.Remove(id), {kPinEnded, session_id, now});
  return true;
}

void PinDesk::Abandon(PendingId id, const absl::Status& status, TimePoint now) {
  state_.events.emplace_back(PinDone{id, status});
  const bool was_waiting = Cancel(id, now);
  KVPOOL_CHECK(was_waiting);
}

void PinDesk::BeginFill(PendingId id, std::span<const BlockId> blocks) {
  state_.pin_table.AddFirst(id, blocks);
  for (const BlockId block : blocks) state_.references.SetPinned(block);
}

void PinDesk::EndFill(PendingId id, const SessionId& session, TimePoint now) {
  Settle(state_.pin_table.Remove(id), {kPinEnded, session, now});
}

absl::StatusOr<const Session*> PinDesk::FindWriter(const PinCall& call) const {
  Caller writer = call.caller;
  if (call.write_session.has_value()) writer.session = *call.write_session;
  return state_.sessions.PeekHolding(writer);
}

absl::Status PinDesk::Check(const Session& session, const Session& writer,
                            std::span<const BlockRef> reads,
                            std::span<const BlockRef> writes) const {
  KVPOOL_RETURN_IF_ERROR(state_.references.CheckHeld(session, reads));
  for (size_t i = 0; i < writes.size(); ++i) {
    const BlockId block = writes[i].block;
    KVPOOL_RETURN_IF_ERROR(state_.references.CheckHeld(writer, writes[i], i));
    const BlockRecord& record = state_.references.blocks().record(block);
    if (record.has(BlockRecord::kSealed)) {
      return WriteError(Reason::kSealed, i, block, "sealed");
    }
    if (state_.claims.IsClaimed(block)) {
      return WriteError(Reason::kClaimed, i, block, "claimed by a process of an ended session");
    }
  }
  return absl::OkStatus();
}

absl::Status PinDesk::Recheck(const PinEntry& entry) const {
  const Session* session = state_.sessions.Find(entry.session);
  const Session* writer = state_.sessions.Find(entry.write_session);
  const bool is_session_live = session != nullptr && session->is_live;
  if (!is_session_live || writer == nullptr || !writer->is_live) {
    const SessionId& ended = is_session_live ? entry.write_session : entry.session;
    return MakeError(absl::StatusCode::kNotFound, {.reason = Reason::kSessionUnknown},
                     absl::StrCat("session ", ended.Short(), " ended"));
  }
  return Check(*session, *writer, entry.reads, entry.writes);
}

std::vector<BlockRef> PinDesk::WithGenerations(std::span<const BlockRef> refs) const {
  std::vector<BlockRef> result(refs.begin(), refs.end());
  for (BlockRef& ref : result) {
    ref.generation = Generation{state_.references.blocks().record(ref.block).generation};
  }
  return result;
}

void PinDesk::Grant(PendingId id) {
  for (const BlockId block : state_.pin_table.Grant(id)) state_.references.SetPinned(block);
}

void PinDesk::Settle(const PinTable::Removed& removed, const Cause& cause) {
  for (const BlockId block : removed.unpinned) state_.references.ClearPinned(block, cause);
  std::vector<PendingId> turns = removed.clear;
  for (size_t i = 0; i < turns.size(); ++i) {
    const PendingId id = turns[i];
    const PinEntry& entry = state_.pins.at(id);
    Session* session = state_.sessions.Find(entry.session);
    KVPOOL_CHECK(session != nullptr);
    const absl::Status status = Recheck(entry);
    session->pending.erase(id);
    state_.events.emplace_back(PinDone{id, status});
    if (status.ok()) {
      Grant(id);
      continue;
    }
    state_.pins.erase(id);
    if (session->is_live) state_.sessions.EndRunning(*session, cause.time);
    const PinTable::Removed more = state_.pin_table.Remove(id);
    turns.insert(turns.end(), more.clear.begin(), more.clear.end());
  }
}

}  // namespace kvpool
