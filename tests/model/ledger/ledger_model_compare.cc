#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "tests/model/ledger/call_text.h"
#include "tests/model/ledger/ledger_model.h"

namespace kvpool::test {
namespace {

std::string TimeText(std::optional<TimePoint> time) {
  return time.has_value() ? absl::StrCat(time->time_since_epoch().count()) : "never";
}

std::string CountsText(const LedgerCounts& counts) {
  return absl::StrCat("free=", counts.free_blocks, " cached=", counts.cached_blocks,
                      " held=", counts.held_blocks, " quarantined=", counts.quarantined_blocks,
                      " published=", counts.published_blocks, " sessions=", counts.sessions,
                      " waiting=", counts.waiting_calls);
}

}  // namespace

std::string LedgerModel::Check(const Ledger& ledger, const Seen& seen) {
  Complain(CompareEvents(expected_, seen.events));
  expected_.clear();
  CompareBlocks(seen);
  if (complaint_.empty()) CompareSessions(ledger);
  const LedgerCounts counts = state_.Counts();
  if (ledger.counts() != counts) {
    Complain(absl::StrCat("counts: expected ", CountsText(counts), ", got ",
                          CountsText(ledger.counts())));
  }
  if (ledger.is_idle() != state_.IsIdle()) Complain("is_idle");
  const auto next = ledger.NextDeadline();
  if (next != state_.NextDeadline()) {
    Complain(absl::StrCat("NextDeadline: expected ", TimeText(state_.NextDeadline()), ", got ",
                          TimeText(next)));
  }
  if (const absl::Status status = ledger.CheckInvariants(); !status.ok()) {
    Complain(absl::StrCat("CheckInvariants: ", std::string(status.message())));
  }
  std::string complaint;
  complaint.swap(complaint_);
  return complaint;
}

void LedgerModel::CompareBlocks(const Seen& seen) {
  for (uint32_t i = 0; i < state_.blocks.size() && complaint_.empty(); ++i) {
    CompareBlock(i, seen.blocks[i]);
  }
}

void LedgerModel::CompareBlock(uint32_t index, const BlockInfo& info) {
  const ModelState::Block& block = state_.blocks[index];
  const auto check = [&](bool is_right, const char* what) {
    if (!is_right) Complain(absl::StrCat("block ", index, ": ", what));
  };
  check(ToIndex(info.block) == index, "id");
  check(info.generation == block.generation, "generation");
  check(info.state == state_.StateOf(index), "state");
  const uint32_t references = state_.RefCount(index);
  check(info.ref_count == references || (block.is_old && info.ref_count == references + 1),
        "ref_count");
  check(info.published == state_.IsFindable(index), "published");
  check(info.sealed == block.sealed.has_value(), "sealed");
  check(info.claimed == state_.IsClaimed(index), "claimed");
  check(info.tenant == block.tenant, "tenant");
  check(info.holders.size() == block.refs.size(), "holders");
  for (const BlockHolder& holder : info.holders) {
    check(state_.RefCount(index, holder.session) == holder.references, "a holder's references");
    const auto session = state_.sessions.find(holder.session);
    check(session != state_.sessions.end() && session->second.client_name == holder.client_name,
          "a holder's name");
  }
  CompareTrace(index, info);
}

// Ending events (quarantine, free) may be noted or not; the others are as the model has them.
void LedgerModel::CompareTrace(uint32_t index, const BlockInfo& info) {
  constexpr size_t kMaxEvents = 24;
  if (!state_.options.trace) {
    if (!info.history.empty()) Complain(absl::StrCat("block ", index, ": history untraced"));
    return;
  }
  const auto& trace = state_.blocks[index].trace;
  std::vector<std::pair<TraceOperation, uint32_t>> seen;
  for (size_t i = 0; i < info.history.size(); ++i) {
    const TraceEvent& event = info.history[i];
    if (event.time > state_.now || (i > 0 && event.time < info.history[i - 1].time)) {
      Complain(absl::StrCat("block ", index, ": time of an event"));
    }
    if (event.operation == TraceOperation::kQuarantine ||
        event.operation == TraceOperation::kFree) {
      continue;
    }
    if (event.operation == TraceOperation::kRelease && !seen.empty() &&
        seen.back().first == TraceOperation::kRelease) {
      seen.pop_back();
    }
    seen.emplace_back(event.operation, event.ref_count_after);
  }
  const bool is_whole = info.history.size() < kMaxEvents;
  if (info.history.size() > kMaxEvents || seen.size() > trace.size() ||
      (is_whole && seen.size() != trace.size()) ||
      !std::equal(seen.rbegin(), seen.rend(), trace.rbegin())) {
    Complain(absl::StrCat("block ", index, ": history"));
  }
}

void LedgerModel::CompareSessions(const Ledger& ledger) {
  const std::vector<SessionInfo> list = ledger.ListSessions();
  if (list.size() != state_.sessions.size()) {
    Complain(absl::StrCat(list.size(), " sessions, not ", state_.sessions.size()));
  }
  for (const SessionInfo& info : list) {
    CompareSession(info);
    if (!info.blocks.empty()) Complain("ListSessions names blocks");
    if (!complaint_.empty()) return;
    // At times fewer ids than there are.
    const uint32_t max_blocks = info.held_blocks % 2 == 0 ? state_.options.num_blocks : 1;
    const auto whole = ledger.GetSession(info.id, max_blocks);
    if (!whole.ok()) return Complain("GetSession: " + ToText(whole.status()));
    CompareSession(*whole);
    std::vector<BlockId> held;
    for (uint32_t i = 0; i < state_.blocks.size(); ++i) {
      if (state_.RefCount(i, info.id) > 0) held.push_back(BlockId{i});
    }
    const bool is_truncated = held.size() > max_blocks;
    if (is_truncated) held.resize(max_blocks);
    if (whole->blocks != held || whole->truncated != is_truncated) {
      Complain(absl::StrCat(ToText(info.id), ": blocks"));
    }
  }
}

void LedgerModel::CompareSession(const SessionInfo& info) {
  const auto it = state_.sessions.find(info.id);
  if (it == state_.sessions.end()) return Complain(ToText(info.id) + " is still there");
  const Session& session = it->second;
  const auto check = [&](bool is_right, const char* what) {
    if (!is_right) Complain(absl::StrCat(ToText(info.id), ": ", what));
  };
  const uint64_t references = state_.References(info.id);
  SessionState state =
      session.stream.has_value() ? SessionState::kAttached : SessionState::kUnattached;
  if (!session.is_live) {
    state = references > 0 ? SessionState::kClosing : SessionState::kClaiming;
  }
  // What is left of claims that have ended is dropped in slices, too.
  const bool may_differ = !session.is_live && state_.IsOver(info.id);
  check(info.state == state || (may_differ && info.state == SessionState::kClosing), "state");
  check(info.tenant == session.tenant && info.client_name == session.client_name, "names");
  check(session.joined.has_value() || info.model_id == session.model_id, "model_id");
  check(info.pid == session.pid && info.uid == session.uid, "pid or uid");
  check(info.open_time == session.open_time, "open_time");
  check(info.references == references, "references");
  check(info.held_blocks == state_.HeldBlocks(info.id), "held_blocks");
  check(info.joined == session.joined.value_or(SessionId{}), "joined");
  // Those that are gone may be listed or not; so may those of sessions that joined it.
  std::set<ProcessId> all = session.processes;
  for (const auto& [id, other] : state_.sessions) {
    if (other.joined == info.id) all.insert(other.processes.begin(), other.processes.end());
  }
  for (const ProcessId process : info.processes) check(all.contains(process), "processes");
  for (const ProcessId process : session.processes) {
    check(state_.gone.contains(process) || session.is_vouched ||
              std::ranges::count(info.processes, process) == 1,
          "a process is missing");
  }
}

}  // namespace kvpool::test
