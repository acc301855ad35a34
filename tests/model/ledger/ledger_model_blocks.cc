#include <algorithm>

#include "absl/strings/str_cat.h"

#include "tests/model/ledger/call_text.h"
#include "tests/model/ledger/ledger_model.h"

namespace kvpool::test {
Verdicts LedgerModel::CheckList(std::span<const BlockRef> blocks) const {
  const bool is_out_of_range = std::ranges::any_of(blocks, [this](const BlockRef& ref) {
    return ToIndex(ref.block) >= state_.options.num_blocks;
  });
  return is_out_of_range || blocks.size() > state_.options.limits.max_blocks_per_call
             ? Error(absl::StatusCode::kInvalidArgument)
             : Ok();
}

bool LedgerModel::IsStale(const BlockRef& ref) const {
  return ref.generation != Generation{} &&
         ref.generation != state_.blocks[ToIndex(ref.block)].generation;
}

// Whether the session can drop each entry, in order.
Verdicts LedgerModel::CheckDrops(const SessionId& session, std::span<const BlockRef> blocks) const {
  std::map<uint32_t, uint32_t> dropped;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint32_t block = ToIndex(blocks[i].block);
    if (dropped[block]++ == state_.RefCount(block, session)) {
      return Wrong(Reason::kNotHeld, i, block);
    }
    if (IsStale(blocks[i])) return Wrong(Reason::kStaleBlock, i, block);
  }
  return Ok();
}

// Whether the session holds each entry, and for writing may write to it.
Verdicts LedgerModel::CheckHolds(const SessionId& session, std::span<const BlockRef> blocks,
                                 bool is_writing) const {
  Verdicts verdicts;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint32_t block = ToIndex(blocks[i].block);
    if (state_.RefCount(block, session) == 0) {
      Append(&verdicts, Wrong(Reason::kNotHeld, i, block));
      return verdicts;
    }
    if (IsStale(blocks[i])) {
      Append(&verdicts, Wrong(Reason::kStaleBlock, i, block));
      return verdicts;
    }
    if (!is_writing || !state_.IsClaimed(block)) continue;
    Append(&verdicts, Wrong(Reason::kClaimed, i, block));
    if (!state_.MayHideClaim(block)) return verdicts;
  }
  Append(&verdicts, Ok());
  return verdicts;
}

Verdicts LedgerModel::CheckIncs(const SessionId& session, std::span<const BlockRef> blocks) const {
  const std::string& tenant = state_.sessions.at(session).tenant;
  std::set<uint32_t> added;  // By earlier entries.
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint32_t block = ToIndex(blocks[i].block);
    const bool is_held = state_.RefCount(block, session) > 0 || added.contains(block);
    if (!is_held && blocks[i].generation == Generation{}) {
      return Wrong(Reason::kNotHeld, i, block);
    }
    if (IsStale(blocks[i])) return Wrong(Reason::kStaleBlock, i, block);
    if (state_.StateOf(block) != BlockState::kHeld) return Wrong(Reason::kNotLive, i, block);
    if (state_.blocks[block].tenant != tenant) {
      return Error(absl::StatusCode::kPermissionDenied);
    }
    added.insert(block);
  }
  return Ok();
}

void LedgerModel::AddRef(uint32_t block, const SessionId& session, TraceOperation operation) {
  ++state_.blocks[block].refs[session];
  Note(block, operation);
}

void LedgerModel::DropRef(uint32_t block, const SessionId& session, TraceOperation operation) {
  auto& refs = state_.blocks[block].refs;
  if (--refs[session] == 0) refs.erase(session);
  Note(block, operation);
}

// Drops each entry, in order. Returns how many blocks that frees.
uint32_t LedgerModel::DropRefs(const SessionId& session, std::span<const BlockRef> blocks) {
  uint32_t freed = 0;
  for (const BlockRef& ref : blocks) {
    const uint32_t block = ToIndex(ref.block);
    DropRef(block, session, TraceOperation::kDec);
    FreeIfDone(block, /*is_ordered=*/true);
    freed += state_.blocks[block].is_free ? 1U : 0U;
  }
  return freed;
}

// Remembers an answer, or corrects it while its call is being followed.
void LedgerModel::Remember(const SessionId& session, uint64_t key, const std::string& request,
                           const Answer& answer) {
  if (key == 0 || !state_.IsLive(session)) return;
  auto& answers = state_.sessions[session].answers;
  const auto known = std::ranges::find(answers, key, &ModelState::Remembered::key);
  if (known != answers.end()) {
    known->answer = answer;
    return;
  }
  answers.push_back({.key = key, .request = request, .answer = answer});
  if (answers.size() > state_.options.limits.max_idempotency_keys) answers.pop_front();
}

const ModelState::Remembered* LedgerModel::Recall(const SessionId& session, uint64_t key,
                                                  const std::string& request,
                                                  Verdicts* verdicts) const {
  const auto& answers = state_.sessions.at(session).answers;
  const auto known = std::ranges::find(answers, key, &ModelState::Remembered::key);
  if (key == 0 || known == answers.end()) return nullptr;
  *verdicts = Ok();
  if (known->request != request) {
    *verdicts = Error(absl::StatusCode::kInvalidArgument);
  } else if (const auto* answer = std::get_if<AllocAnswer>(&known->answer)) {
    if (!CheckHolds(session, answer->blocks, /*is_writing=*/false).front().ok()) {
      *verdicts = Error(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kKeySpent});
    }
  }
  return &*known;
}

// The verdict on a call that may be a repeat: `is_new` tells whether it is to be done.
Verdicts LedgerModel::CheckKey(const SessionId& session, uint64_t key, const std::string& request,
                               bool* is_new, const ModelState::Remembered** known) {
  Verdicts verdicts = Ok();
  *known = Recall(session, key, request, &verdicts);
  std::string* pending = nullptr;
  if (*known == nullptr && key != 0 && FindPending(session, key, &pending) != nullptr) {
    verdicts = Error(absl::StatusCode::kInvalidArgument);
  }
  *is_new = *known == nullptr && verdicts.front().ok();
  return verdicts;
}

void LedgerModel::IncRef(const IncRefCall& call, TimePoint now, const absl::Status& result,
                         const Seen& seen) {
  Begin(now, seen);
  const SessionId& session = call.caller.session;
  Verdicts verdicts = Admit(call.caller, /*may_be_joined=*/false);
  bool is_new = false;
  if (verdicts.front().ok()) {
    const ModelState::Remembered* known = nullptr;
    verdicts = CheckKey(session, call.idempotency_key, ToText(call), &is_new, &known);
    if (is_new) verdicts = CheckList(call.blocks);
    if (is_new && verdicts.front().ok()) verdicts = CheckIncs(session, call.blocks);
  }
  Judge("IncRef", verdicts, result);
  const bool is_done = is_new && result.ok() && complaint_.empty();
  if (is_done) {
    for (const BlockRef& ref : call.blocks) {
      AddRef(ToIndex(ref.block), session, TraceOperation::kInc);
    }
  }
  Finish();
  if (is_done) Remember(session, call.idempotency_key, ToText(call), result);
}

void LedgerModel::DecRef(const DecRefCall& call, TimePoint now,
                         const absl::StatusOr<DecRefAnswer>& result, const Seen& seen) {
  Begin(now, seen);
  const SessionId& session = call.caller.session;
  Verdicts verdicts = Admit(call.caller, /*may_be_joined=*/false);
  bool is_new = false;
  DecRefAnswer answer;
  if (verdicts.front().ok()) {
    const ModelState::Remembered* known = nullptr;
    verdicts = CheckKey(session, call.idempotency_key, ToText(call), &is_new, &known);
    if (known != nullptr && verdicts.front().ok()) answer = std::get<DecRefAnswer>(known->answer);
    if (is_new) verdicts = CheckList(call.blocks);
    if (is_new && verdicts.front().ok()) verdicts = CheckDrops(session, call.blocks);
  }
  Judge("DecRef", verdicts, result.status());
  const bool is_done = is_new && verdicts.front().ok();
  if (is_done) answer.freed = DropRefs(session, call.blocks);
  Finish();
  if (is_done) answer.available = Told(state_.Available(session));
  if (result.ok() && answer.available == kAnyNumber) answer.available = result->available;
  if (is_done) Remember(session, call.idempotency_key, ToText(call), answer);
  if (result.ok() && *result != answer) {
    Complain(absl::StrCat("DecRef: expected freed=", answer.freed, " available=", answer.available,
                          ", got freed=", result->freed, " cached=", result->cached,
                          " available=", result->available));
  }
}

}  // namespace kvpool::test
