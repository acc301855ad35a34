#include <algorithm>

#include "absl/strings/str_cat.h"

#include "tests/model/ledger/call_text.h"
#include "tests/model/ledger/ledger_model.h"

namespace kvpool::test {
void LedgerModel::AddRef(uint32_t block, const SessionId& session, TraceOperation operation) {
  ++state_.blocks[block].refs[session];
  // What a reset left is the cache's no more.
  state_.blocks[block].is_left = false;
  Note(block, operation);
}

void LedgerModel::DropRef(uint32_t block, const SessionId& session, TraceOperation operation) {
  auto& refs = state_.blocks[block].refs;
  if (--refs[session] == 0) refs.erase(session);
  Note(block, operation);
}

// Drops each entry, in order. Returns how many blocks that frees, and leaves cached.
DecRefAnswer LedgerModel::DropRefs(const SessionId& session, std::span<const BlockRef> blocks) {
  DecRefAnswer dropped;
  for (const BlockRef& ref : blocks) {
    const uint32_t block = ToIndex(ref.block);
    DropRef(block, session, TraceOperation::kDec);
    FreeIfDone(block, /*is_ordered=*/true);
    dropped.freed += state_.blocks[block].is_free ? 1U : 0U;
    dropped.cached += state_.StateOf(block) == BlockState::kCached ? 1U : 0U;
  }
  return dropped;
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

void LedgerModel::IncRef(const IncRefCall& call, TimePoint now, const absl::Status& result,
                         const Seen& seen) {
  Begin(now, seen);
  const SessionId& session = call.caller.session;
  Verdicts verdicts = Admit(call.caller, /*may_be_joined=*/false);
  bool is_new = false;
  if (verdicts.front().ok()) {
    const ModelState::Remembered* known = nullptr;
    verdicts = CheckKey(state_, session, call.idempotency_key, ToText(call), &is_new, &known);
    if (is_new) verdicts = CheckList(state_, call.blocks);
    if (is_new && verdicts.front().ok()) verdicts = CheckIncs(state_, session, call.blocks);
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
    verdicts = CheckKey(state_, session, call.idempotency_key, ToText(call), &is_new, &known);
    if (known != nullptr && verdicts.front().ok()) answer = std::get<DecRefAnswer>(known->answer);
    if (is_new) verdicts = CheckList(state_, call.blocks);
    if (is_new && verdicts.front().ok()) verdicts = CheckDrops(state_, session, call.blocks);
  }
  Judge("DecRef", verdicts, result.status());
  const bool is_done = is_new && verdicts.front().ok();
  if (is_done) answer = DropRefs(session, call.blocks);
  for (const BlockRef& ref : call.blocks) {
    if (is_done && call.done && state_.StateOf(ToIndex(ref.block)) == BlockState::kCached) {
      state_.blocks[ToIndex(ref.block)].is_done = true;
    }
  }
  Finish();
  if (is_done) answer.available = Told(state_.Available(session));
  if (result.ok() && answer.available == kAnyNumber) answer.available = result->available;
  if (is_done) Remember(session, call.idempotency_key, ToText(call), answer);
  if (result.ok() && *result != answer) {
    Complain(absl::StrCat("DecRef: expected freed=", answer.freed, " cached=", answer.cached,
                          " available=", answer.available, ", got freed=", result->freed,
                          " cached=", result->cached, " available=", result->available));
  }
}

}  // namespace kvpool::test
