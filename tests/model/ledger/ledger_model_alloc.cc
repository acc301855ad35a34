#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "tests/model/ledger/call_text.h"
#include "tests/model/ledger/ledger_model.h"

namespace kvpool::test {
namespace {

using Kind = ExpectedEvent::Kind;

// Those of the new blocks of a grant that are known to be its own.
std::vector<BlockId> GivenBlocks(const AllocAnswer* answer, const FillNeeded* fill) {
  std::vector<BlockId> given;
  if (answer != nullptr) {
    for (const BlockRef& ref : answer->blocks) given.push_back(ref.block);
    return given;
  }
  given = fill->zero;
  given.insert(given.end(), fill->poison.begin(), fill->poison.end());
  return given;
}

}  // namespace

bool LedgerModel::IsFirst(const AllocCall& call, PendingId id) const {
  for (const auto queue : {WaitQueue::kGrow, WaitQueue::kAdmit}) {
    for (const ModelState::Waiter& waiter : state_.waiters[static_cast<size_t>(queue)]) {
      if (waiter.id == id) return true;
      if (queue <= call.queue) return false;
    }
  }
  return true;
}

// Whether the call can be served, as things stand, and with how many blocks.
Verdicts LedgerModel::CheckAlloc(const AllocCall& call, bool is_first, uint32_t* take,
                                 bool is_waiting) const {
  const SessionId& session = call.caller.session;
  if (call.count > state_.options.num_blocks ||
      call.count > state_.options.limits.max_blocks_per_call ||
      (call.allow_partial && call.may_wait()) ||
      (call.prefix != nullptr && state_.sessions.at(session).model_id.empty())) {
    return Error(absl::StatusCode::kInvalidArgument);
  }
  if (call.prefix != nullptr) return CheckAcquire(call, is_first, take, is_waiting);
  Verdicts drops = CheckDrops(state_, session, call.release);
  if (!drops.front().ok()) return drops;
  std::optional<LedgerModel> dropped;
  if (!call.release.empty()) dropped.emplace(*this).DropRefs(session, call.release);
  const ModelState& after = dropped.has_value() ? dropped->state_ : state_;
  const uint32_t quota = after.QuotaLeft(after.sessions.at(session).tenant);
  // What it releases serves this call before anything else.
  uint32_t own = 0;
  ModelState taken = after;
  for (uint32_t i = 0; i < taken.blocks.size() && !call.release.empty() && is_first; ++i) {
    // Also where it leaves them cached.
    if (taken.StateOf(i) == state_.StateOf(i) ||
        (!taken.blocks[i].is_free && taken.StateOf(i) != BlockState::kCached)) {
      continue;
    }
    taken.blocks[i].is_free = false;
    taken.blocks[i].refs[session] = 1;
    ++own;
  }
  const uint32_t available = std::min(quota, own + taken.Unreserved(session, is_first));
  *take = std::min(call.count, available);
  if (call.count <= available || call.allow_partial) return Ok();
  if (call.count > quota) {
    return Error(absl::StatusCode::kResourceExhausted, {.reason = Reason::kQuota});
  }
  return Error(absl::StatusCode::kResourceExhausted,
               {.reason = Reason::kPoolFull, .available = Told(available)});
}

// As CheckAlloc, of a call with a prefix. What it finds cached counts like new blocks.
Verdicts LedgerModel::CheckAcquire(const AllocCall& call, bool is_first, uint32_t* take,
                                   bool is_waiting) const {
  const SessionId& session = call.caller.session;
  const std::vector<uint32_t> hits = state_.Match(*call.prefix, call.count);
  *take = call.count - static_cast<uint32_t>(hits.size());
  if (call.max_new_blocks > 0) *take = std::min(*take, call.max_new_blocks);
  uint32_t needed = *take;
  uint32_t shared = 0;
  bool is_over_limit = false;
  for (const uint32_t block : hits) {
    const bool is_cached = state_.StateOf(block) == BlockState::kCached;
    needed += is_cached ? 1U : 0U;
    shared += !is_cached && state_.RefCount(block, session) == 0 ? 1U : 0U;
    is_over_limit |= state_.SharedRefs(block) >= state_.options.limits.max_references_per_block;
  }
  Verdicts limit = Error(absl::StatusCode::kResourceExhausted, {.reason = Reason::kLimit});
  const uint32_t quota = state_.QuotaLeft(state_.sessions.at(session).tenant);
  const uint32_t available = std::min(quota, state_.Unreserved(session, is_first, shared));
  const bool is_early = is_waiting && !is_first;
  const bool is_full = needed > available || (is_early && call.count > state_.Unfilled(session));
  if (is_over_limit) return limit;
  if (!is_full) return Ok();
  if (needed > quota) {
    return Error(absl::StatusCode::kResourceExhausted, {.reason = Reason::kQuota});
  }
  return Error(absl::StatusCode::kResourceExhausted,
               {.reason = Reason::kPoolFull, .available = Told(available)});
}

// As CheckAlloc. An Alloc that is short of room first drops what ended sessions still hold.
Verdicts LedgerModel::CheckRoom(const AllocCall& call, bool is_first, uint32_t* take) {
  Verdicts verdicts = CheckAlloc(call, is_first, take, /*is_waiting=*/false);
  const bool is_limit = verdicts.front().detail.reason == Reason::kLimit;
  if ((verdicts.front().ok() && (*take == call.count || call.prefix != nullptr)) || is_limit ||
      Leftovers() == 0) {
    return verdicts;
  }
  LedgerModel after = *this;
  for (auto& [id, session] : after.state_.sessions) {
    if (after.state_.IsOver(id)) session.claims.clear();
    for (uint32_t i = 0; i < state_.blocks.size() && !session.is_live; ++i) {
      while (after.state_.RefCount(i, id) > 0) after.DropRef(i, id, TraceOperation::kRelease);
    }
  }
  after.FreeAllDone();
  uint32_t all = 0;
  Verdicts best = after.CheckAlloc(call, is_first, &all, /*is_waiting=*/false);
  if (all > *take || (best.front().ok() && !verdicts.front().ok()))
    Complain("an Alloc short of room did not drop what ended sessions hold");
  return best;
}

void LedgerModel::Alloc(const AllocCall& call, TimePoint now,
                        const absl::StatusOr<AllocOutcome>& result, const Seen& seen) {
  Begin(now, seen);
  const std::string request = ToText(call);
  const Verdicts session = Admit(call.caller, /*may_be_joined=*/false);
  if (!session.front().ok()) {
    Judge("Alloc", session, result.status());
  } else {
    if (!AnswerFromKey(call, request, result)) AllocAnew(call, request, result);
  }
  const bool is_new_answer =
      result.ok() && result->pending == PendingId{} && !is_replay_ && complaint_.empty();
  Finish();
  if (!is_new_answer) return;
  // After what was told to those whom it made room for.
  Remember(call.caller.session, call.idempotency_key, request, result->answer);
  const uint32_t available = Told(state_.Available(call.caller.session));
  if (available != kAnyNumber && result->answer.available != available) {
    Complain(absl::StrCat("Alloc: available is ", available, ", not ", result->answer.available));
  }
}

void LedgerModel::AllocAnew(const AllocCall& call, const std::string& request,
                            const absl::StatusOr<AllocOutcome>& result) {
  may_drop_.reset();
  // What it reclaims goes to who waits before it.
  Settle();
  uint32_t take = 0;
  const Verdicts list = CheckList(state_, call.release);
  Verdicts verdicts = list.front().ok() ? CheckRoom(call, IsFirst(call, PendingId{}), &take) : list;
  const bool is_full = verdicts.front().detail.reason == Reason::kPoolFull;
  if (is_full && call.may_wait()) {
    const size_t waiting = state_.waiters[0].size() + state_.waiters[1].size();
    verdicts = waiting < state_.options.limits.max_waiting_calls
                   ? Ok()
                   : Error(absl::StatusCode::kResourceExhausted, {.reason = Reason::kLimit});
  }
  Judge("Alloc", verdicts, result.status());
  if (!result.ok() || !verdicts.front().ok()) return;
  if (!is_full) {
    Serve(result->pending, call, request, take,
          result->pending == PendingId{} ? &result->answer : nullptr);
    return;
  }
  if (result->pending == PendingId{}) Complain("Alloc: is served, and should wait");
  ModelState::Waiter waiter{
      .id = result->pending,
      .call = call,
      .tenant = std::string(call.caller.tenant),
      .prefix = call.prefix == nullptr ? nullptr : std::make_shared<PrefixKeys>(*call.prefix),
      .release = {call.release.begin(), call.release.end()},
      .request = request,
      .deadline = state_.now + std::min(*call.wait, state_.options.limits.max_wait)};
  waiter.call.caller.tenant = {};
  waiter.call.prefix = nullptr;
  waiter.call.release = {};
  state_.waiters[static_cast<size_t>(call.queue)].push_back(waiter);
}

// Handles a call whose key is known or of a call that is pending. False: it is neither.
bool LedgerModel::AnswerFromKey(const AllocCall& call, const std::string& request,
                                const absl::StatusOr<AllocOutcome>& result) {
  is_replay_ = false;
  if (call.idempotency_key == 0) return false;
  Verdicts verdicts;
  const ModelState::Remembered* known =
      Recall(state_, call.caller.session, call.idempotency_key, request, &verdicts);
  if (known != nullptr) {
    is_replay_ = true;
    Judge("repeated Alloc", verdicts, result.status());
    if (result.ok() && (result->pending != PendingId{} ||
                        result->answer != std::get<AllocAnswer>(known->answer))) {
      Complain("repeated Alloc: another answer than the first");
    }
    return true;
  }
  std::string* pending_request = nullptr;
  PendingId* pending = FindPending(call.caller.session, call.idempotency_key, &pending_request);
  if (pending == nullptr) return false;
  is_replay_ = true;
  if (*pending_request != request) {
    Judge("Alloc", Error(absl::StatusCode::kInvalidArgument), result.status());
    return true;
  }
  Judge("Alloc that takes a place", Ok(), result.status());
  if (!result.ok()) return true;
  if (result->pending == PendingId{} || result->pending == *pending) {
    Complain("Alloc: does not take the pending call's place");
  }
  expected_.push_back(
      {.kind = Kind::kAllocDone, .id = *pending, .verdicts = Error(absl::StatusCode::kAborted)});
  *pending = result->pending;
  for (auto& queue : state_.waiters) {
    for (ModelState::Waiter& waiter : queue) {
      if (waiter.id == result->pending) {
        waiter.deadline = state_.now + std::min(*call.wait, state_.options.limits.max_wait);
      }
    }
  }
  return true;
}

PendingId* LedgerModel::FindPending(const SessionId& session, uint64_t key, std::string** request) {
  for (auto& queue : state_.waiters) {
    for (ModelState::Waiter& waiter : queue) {
      if (waiter.call.caller.session == session && waiter.call.idempotency_key == key) {
        *request = &waiter.request;
        return &waiter.id;
      }
    }
  }
  for (ModelState::Fill& fill : state_.fills) {
    if (fill.session == session && fill.key == key && fill.answer != PendingId{}) {
      *request = &fill.request;
      return &fill.answer;
    }
  }
  return nullptr;
}

// The blocks that the ledger gave to a call of which only the fills are visible: those, and
// others that left FREE and are named by nobody; first such as the session holds afterwards.
std::vector<BlockRef> LedgerModel::BlocksOfFill(const FillNeeded& fill, const SessionId& session,
                                                uint32_t take) const {
  std::set<uint32_t> chosen;
  for (const BlockId block : fill.zero) chosen.insert(ToIndex(block));
  for (const BlockId block : fill.poison) chosen.insert(ToIndex(block));
  for (const bool is_any : {false, true}) {
    for (auto group = state_.free_groups.rbegin(); group != state_.free_groups.rend(); ++group) {
      for (const uint32_t block : *group) {
        const BlockInfo& info = seen_->blocks[block];
        if (chosen.size() < take && info.generation > state_.blocks[block].generation &&
            !IsNamedByAny(block, *seen_) && (is_any || SeenReferences(info, session) > 0)) {
          chosen.insert(block);
        }
      }
    }
  }
  std::vector<BlockRef> blocks;
  for (const uint32_t block : chosen) {
    blocks.push_back({.block = BlockId{block}, .generation = seen_->blocks[block].generation});
  }
  return blocks;
}

void LedgerModel::MergeFreeGroups() {
  std::set<uint32_t> all;
  for (const std::set<uint32_t>& group : state_.free_groups) {
    all.insert(group.begin(), group.end());
  }
  state_.free_groups = {all};
}

// The stack gives the blocks: group by group, and in the answer's order where it is known.
void LedgerModel::TakeFromStack(std::vector<BlockRef> blocks, bool is_in_order) {
  while (!blocks.empty()) {
    if (state_.free_groups.empty()) return Complain("a block is given out that is not free");
    // Where ended sessions are reclaimed in slices, or several sessions' claims end at one time,
    // what was free by then is not known.
    if (IsSliced() || has_tie_) MergeFreeGroups();
    std::set<uint32_t>& top = state_.free_groups.back();
    const auto next = std::ranges::find_if(
        blocks, [&](const BlockRef& ref) { return top.contains(ToIndex(ref.block)); });
    if (next == blocks.end() || (is_in_order && next != blocks.begin())) {
      return Complain(absl::StrCat("blocks left to give out ", ToText(blocks),
                                   ", but freed last was one of ", absl::StrJoin(top, ",")));
    }
    top.erase(ToIndex(next->block));
    if (top.empty()) {
      state_.free_groups.pop_back();
      has_loose_group_ = false;
    }
    blocks.erase(next);
  }
}

void LedgerModel::Serve(PendingId id, const AllocCall& call, const std::string& request,
                        uint32_t take, const AllocAnswer* answer) {
  const SessionId& session = call.caller.session;
  DropRefs(session, call.release);
  const FillNeeded* seen_fill = answer == nullptr ? FindGrant(id, *seen_).fill : nullptr;
  if (answer == nullptr && seen_fill == nullptr) {
    return Complain(ToText(id) + " should be served, and is not");
  }
  std::vector<BlockRef> matched;
  if (call.prefix != nullptr) {
    const std::vector<uint32_t> hits = state_.Match(*call.prefix, call.count);
    AcquireHits(session, hits);
    matched.reserve(hits.size());
    for (const uint32_t block : hits) {
      matched.push_back({.block = BlockId{block}, .generation = state_.blocks[block].generation});
    }
  }
  MakeRoom(std::string(call.caller.tenant), take, GivenBlocks(answer, seen_fill));
  std::vector<BlockRef> blocks;
  if (answer != nullptr) {
    if (answer->blocks.size() != matched.size() + take ||
        !std::equal(matched.begin(), matched.end(), answer->blocks.begin())) {
      return Complain(absl::StrCat("Alloc: gives ", ToText(answer->blocks), ", not ",
                                   ToText(matched), " and ", take));
    }
    blocks.assign(answer->blocks.begin() + static_cast<std::ptrdiff_t>(matched.size()),
                  answer->blocks.end());
  } else {
    blocks = BlocksOfFill(*seen_fill, session, take);
    if (blocks.size() != take) return Complain("Alloc: other blocks than it should give");
  }
  const std::optional<PrefixKey> last_key =
      call.prefix == nullptr ? std::nullopt : call.prefix->LastKey(matched.size());
  if (answer != nullptr &&
      (answer->matched_blocks != matched.size() || answer->last_key != last_key)) {
    Complain("Alloc: matched_blocks or last_key");
  }
  TakeFromStack(blocks, answer != nullptr);
  if (!complaint_.empty()) return;
  ExpectedEvent needed{.kind = Kind::kFillNeeded, .id = id, .is_grant = true};
  GiveOut(call, blocks, &needed);
  if ((needed.zero.empty() && needed.poison.empty()) != (answer != nullptr)) {
    return Complain("Alloc: fills where none is needed, or the reverse");
  }
  if (answer != nullptr) return;
  expected_.push_back(needed);
  ModelState::Fill fill{.id = id,
                        .answer = id,
                        .session = session,
                        .key = call.idempotency_key,
                        .request = request,
                        .blocks = matched,
                        .matched_blocks = static_cast<uint32_t>(matched.size()),
                        .last_key = last_key,
                        .filled = needed.zero};
  fill.filled.insert(needed.poison.begin(), needed.poison.end());
  fill.blocks.insert(fill.blocks.end(), blocks.begin(), blocks.end());
  ModelState::Pin pin{.id = id, .reader = session, .writer = session, .is_granted = true};
  for (const BlockRef& ref : blocks) {
    if (fill.filled.contains(ToIndex(ref.block))) pin.writes.push_back(ref);
  }
  state_.fills.push_back(fill);
  state_.pins.push_back(pin);
}

// New blocks become the session's. Notes which of them have to be filled.
void LedgerModel::GiveOut(const AllocCall& call, std::span<const BlockRef> blocks,
                          ExpectedEvent* needed) {
  const Fill fill = call.fill == Fill::kUnspecified ? state_.options.fill_on_alloc : call.fill;
  for (const BlockRef& ref : blocks) {
    const uint32_t index = ToIndex(ref.block);
    ModelState::Block& block = state_.blocks[index];
    if (ref.generation <= block.generation) Complain("a generation does not rise");
    const bool is_other_tenants =
        block.generation != Generation{} &&
        (block.is_doubtful || absl::string_view(block.tenant) != call.caller.tenant);
    if (fill == Fill::kZero || (fill == Fill::kAcrossTenants && is_other_tenants)) {
      needed->zero.insert(index);
    } else if (fill == Fill::kPoison) {
      needed->poison.insert(index);
    }
    block.is_free = false;
    block.is_doubtful = false;
    block.is_done = false;
    block.generation = ref.generation;
    block.tenant = std::string(call.caller.tenant);
    AddRef(index, call.caller.session, TraceOperation::kAlloc);
  }
}

}  // namespace kvpool::test
