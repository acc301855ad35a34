#include "tests/model/exhaustive/world.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"

#include "core/status_macros.h"
#include "tests/model/ledger/call_text.h"
#include "tests/model/ledger/model_keys.h"

namespace kvpool::test {
namespace {

using std::chrono::seconds;

constexpr Duration kTtl = seconds(10);
constexpr Duration kWait = seconds(1);
constexpr Duration kGrace = seconds(5);
constexpr uint32_t kGuarantee = 2;

LedgerOptions OptionsOf(const WorldOptions& options) {
  LedgerOptions ledger = {.num_blocks = kBlocks,
                          .max_blocks_per_tenant = options.quota,
                          .eviction_policy = EvictionPolicyName::kLeafLru,
                          .claim_grace = kGrace};
  // One for each session of the run, and one for TakeAll.
  ledger.limits.max_sessions = kSessions + 1;
  ledger.limits.max_waiting_calls = 1;
  ledger.limits.max_references_per_block = 3;
  ledger.limits.max_logged_changes = 16;
  ledger.limits.reclaim_slice = 1;
  return ledger;
}

ProcessId ProcessOf(uint32_t number) { return ProcessId{number}; }

// Each tenant's prefixes are a space of their own.
PrefixKeys PrefixOf(const std::string& tenant, const std::string& text) {
  return MakePrefix(tenant.front(), "", text);
}

}  // namespace

World::World(const WorldOptions& options, Reached& reached)
    : options_(options), reached_(reached), ledger_(OptionsOf(options)) {
  after_ = Look();
}

bool World::Do(const Letter& letter) {
  if (!Applies(letter)) return false;
  Make(letter);
  Check(letter, before_);
  return true;
}

void World::Redo(const Letter& letter) { Make(letter); }

void World::Make(const Letter& letter) {
  ++calls_;
  to_fill_.clear();
  replaced_.reset();
  before_ = after_;
  had_to_reclaim_ =
      std::ranges::any_of(slots_, [](const Slot& slot) { return slot.is_known && !slot.is_live; });
  answer_ = Call(letter);
  TakeEvents();
  if (letter.op == Op::kFilled || letter.op == Op::kFillFailed) fills_.erase(fills_.begin());
  after_ = Look();
  due_ = ledger_.NextDeadline();
  for (uint32_t i = 0; i < kBlocks; ++i) {
    const bool is_taken = before_[i].generation != after_[i].generation;
    if (is_taken || after_[i].state == BlockState::kFree) text_[i].clear();
  }
  for (Slot& slot : slots_) {
    if (!slot.is_known || slot.is_live) continue;
    const auto info = ledger_.GetSession(MakeSessionId(slot.number), 0);
    if (info.ok()) slot.state = info->state;
  }
}

bool World::Applies(const Letter& letter) const {
  const Slot& slot = slots_[letter.session];
  switch (letter.op) {
    case Op::kOpen:
    case Op::kOpenGuaranteed:
      return !slot.is_known;
    case Op::kJoin:
      return !slot.is_known && slots_[0].number > 0;
    case Op::kGone:
      return slot.number > 0 && !slot.is_process_gone;
    case Op::kSwap:
    case Op::kIncRef:
    case Op::kIncRefStale:
    case Op::kIncRefBare:
    case Op::kDecRef:
    case Op::kDecRefStale:
    case Op::kDecRefDone:
    case Op::kPublish:
    case Op::kEvict:
      return slot.number > 0 && after_[letter.number].generation != Generation{};
    case Op::kPinToRead:
    case Op::kPinToWrite:
      return slot.number > 0 && after_[letter.number].generation != Generation{} &&
             pins_.size() < 2;
    case Op::kReset:
      return slot.number > 0;
    case Op::kResetAll:
    case Op::kReclaim:
      return true;
    case Op::kUnpin:
      return std::ranges::any_of(pins_, &PinOfBlock::is_granted);
    case Op::kCancel:
      return waiting_.has_value() || !std::ranges::all_of(pins_, &PinOfBlock::is_granted);
    case Op::kFilled:
    case Op::kFillFailed:
      return !fills_.empty();
    case Op::kAdvance:
      return ledger_.NextDeadline().has_value();
    case Op::kRepeat:
      return keyed_.has_value() && slots_[keyed_->letter.session].is_live &&
             slots_[keyed_->letter.session].number == keyed_->number;
    default:
      return slot.number > 0;
  }
}

absl::Status World::Call(const Letter& letter) {
  // One without a key leaves the call before to be repeated.
  const uint64_t key = options_.has_keys && letter.op != Op::kDecRefDone ? calls_ : 0;
  const BlockRef ref = RefFor(letter);
  switch (letter.op) {
    case Op::kAlloc:
    case Op::kAllocZeroed:
    case Op::kAllocOrWait:
    case Op::kSwap:
    case Op::kAcquire:
    case Op::kAcquireOrWait:
      return Alloc(letter, key, ref);
    case Op::kIncRef:
    case Op::kIncRefStale:
    case Op::kIncRefBare:
      return IncRef(letter, key, ref);
    case Op::kDecRef:
    case Op::kDecRefStale:
    case Op::kDecRefDone:
      return DecRef(letter, key, ref);
    case Op::kPublish:
      return Publish(letter, key, ref);
    case Op::kLookup:
      return Lookup(letter, key);
    case Op::kEvict:
    case Op::kEvictOne:
      return Evict(letter);
    case Op::kPinToRead:
    case Op::kPinToWrite:
      return Pin(letter);
    case Op::kRepeat:
      return Repeat();
    default:
      return CallSession(letter);
  }
}

absl::Status World::CallSession(const Letter& letter) {
  Slot& slot = slots_[letter.session];
  const Caller caller = CallerOf(letter.session);
  switch (letter.op) {
    case Op::kOpen:
    case Op::kOpenGuaranteed:
    case Op::kJoin: {
      const bool joins = letter.op == Op::kJoin;
      const uint32_t guarantee = letter.op == Op::kOpenGuaranteed ? kGuarantee : 0;
      const uint32_t number = ++last_number_;
      KVPOOL_RETURN_IF_ERROR(
          ledger_
              .OpenSession({.id = MakeSessionId(number),
                            .tenant = caller.tenant,
                            .model_id = joins ? "" : "llama",
                            .process = ProcessOf(number),
                            .ttl = kTtl,
                            .guaranteed_blocks = guarantee,
                            .join = joins ? std::optional(IdOf(0)) : std::nullopt},
                           now_)
              .status());
      slot = {.number = number,
              .is_known = true,
              .is_live = true,
              .is_joined = joins,
              .guarantee = guarantee,
              .touched = now_};
      return absl::OkStatus();
    }
    case Op::kAttach: {
      KVPOOL_RETURN_IF_ERROR(ledger_.Attach(caller, ProcessOf(slot.number), now_));
      slot.is_attached = true;
      return absl::OkStatus();
    }
    case Op::kDetach:
      ledger_.Detach(caller.session, now_);
      return absl::OkStatus();
    case Op::kClose:
      return ledger_.CloseSession(caller, now_);
    case Op::kTerminate:
    case Op::kTerminateReleasing:
      return ledger_.TerminateSession(caller.session, letter.op == Op::kTerminateReleasing, now_);
    case Op::kGone:
      slot.is_process_gone = true;
      ledger_.ProcessGone(ProcessOf(slot.number), now_);
      return absl::OkStatus();
    case Op::kReset:
      ledger_.ResetPrefixes(caller.tenant, now_);
      return absl::OkStatus();
    case Op::kResetAll:
      ledger_.ResetPrefixes({}, now_);
      return absl::OkStatus();
    case Op::kUnpin: {
      const auto pin = std::ranges::find_if(pins_, &PinOfBlock::is_granted);
      const PendingId id = pin->id;
      slots_[pin->session].touched = now_;
      pins_.erase(pin);
      ledger_.Unpin(id, now_);
      return absl::OkStatus();
    }
    case Op::kCancel: {
      const auto pin =
          std::ranges::find_if(pins_, [](const auto& each) { return !each.is_granted; });
      const PendingId id = waiting_.has_value() ? waiting_->answer_to : pin->id;
      slots_[waiting_.has_value() ? waiting_->session : pin->session].touched = now_;
      if (keyed_.has_value() && keyed_->pending == id) keyed_.reset();
      if (waiting_.has_value()) {
        waiting_.reset();
      } else {
        pins_.erase(pin);
      }
      Expect(ledger_.Cancel(id, now_), "a waiting call cannot be cancelled");
      return absl::OkStatus();
    }
    case Op::kFilled:
    case Op::kFillFailed: {
      const bool ok = letter.op == Op::kFilled;
      FillEnded(ok);
      ledger_.FillDone(fills_.front().id, ok ? absl::OkStatus() : absl::InternalError("no fill"),
                       now_);
      return absl::OkStatus();
    }
    case Op::kAdvance:
      now_ = *ledger_.NextDeadline();
      ledger_.Advance(now_);
      return absl::OkStatus();
    case Op::kReclaim:
      ledger_.Reclaim(1, now_);
      return absl::OkStatus();
    default:
      return absl::UnimplementedError("no such call");
  }
}

absl::Status World::Alloc(const Letter& letter, uint64_t key, const BlockRef& ref) {
  const bool is_acquire = letter.op == Op::kAcquire || letter.op == Op::kAcquireOrWait;
  const bool waits =
      letter.op == Op::kAllocOrWait || letter.op == Op::kSwap || letter.op == Op::kAcquireOrWait;
  const PrefixKeys prefix = PrefixOf(options_.tenants[letter.session], "xy");
  AllocCall call = {.caller = CallerOf(letter.session), .count = letter.number};
  if (letter.op == Op::kSwap || letter.op == Op::kAllocZeroed) call.count = 1;
  if (is_acquire) {
    call.count = 2;
    call.prefix = &prefix;
    call.queue = WaitQueue::kAdmit;
  }
  if (letter.op == Op::kAllocZeroed) call.fill = Fill::kZero;
  if (waits) call.wait = kWait;
  if (letter.op == Op::kSwap) call.release = {&ref, 1};
  call.idempotency_key = key;
  const bool is_repeat = keyed_.has_value() && key != 0 && keyed_->key == key;
  KVPOOL_ASSIGN_OR_RETURN(const AllocOutcome outcome, ledger_.Alloc(call, now_));
  slots_[letter.session].touched = now_;
  if (is_repeat) {
    const bool was_pending = keyed_->pending != PendingId{};
    Expect(was_pending == (outcome.pending != PendingId{}), "a repeat is not answered as the call");
    if (!was_pending) {
      Expect(outcome.answer.blocks == keyed_->blocks, "a repeat is answered otherwise");
      return absl::OkStatus();
    }
    replaced_ = keyed_->pending;
    keyed_->pending = outcome.pending;
    if (waiting_.has_value() && waiting_->answer_to == *replaced_) {
      waiting_->id = outcome.pending;
      waiting_->answer_to = outcome.pending;
    }
    for (PendingCall& fill : fills_) {
      if (fill.answer_to == *replaced_) fill.answer_to = outcome.pending;
    }
    return absl::OkStatus();
  }
  Remember(letter, key, ref);
  if (outcome.pending == PendingId{}) {
    if (letter.op == Op::kSwap) Drop(letter.session, letter.number);
    Take(letter.session, outcome.answer.blocks);
    if (is_acquire) Use(outcome.answer);
    if (key != 0) keyed_->blocks = outcome.answer.blocks;
    return absl::OkStatus();
  }
  if (key != 0) keyed_->pending = outcome.pending;
  PendingCall pending = {.id = outcome.pending,
                         .answer_to = outcome.pending,
                         .session = letter.session,
                         .number = slots_[letter.session].number,
                         .count = call.count,
                         .release = {},
                         .is_acquire = is_acquire,
                         .blocks = {},
                         .filled = {}};
  if (letter.op == Op::kSwap) pending.release = ref;
  // A FillNeeded may tell that it has its blocks.
  starting_ = std::move(pending);
  return absl::OkStatus();
}

absl::Status World::IncRef(const Letter& letter, uint64_t key, const BlockRef& ref) {
  const bool is_repeat = keyed_.has_value() && key != 0 && keyed_->key == key;
  KVPOOL_RETURN_IF_ERROR(ledger_.IncRef(
      {.caller = CallerOf(letter.session), .blocks = {&ref, 1}, .idempotency_key = key}, now_));
  slots_[letter.session].touched = now_;
  if (is_repeat) return absl::OkStatus();
  Take(letter.session, {ref});
  Remember(letter, key, ref);
  return absl::OkStatus();
}

absl::Status World::DecRef(const Letter& letter, uint64_t key, const BlockRef& ref) {
  const bool is_repeat = keyed_.has_value() && key != 0 && keyed_->key == key;
  KVPOOL_ASSIGN_OR_RETURN(const DecRefAnswer answer,
                          ledger_.DecRef({.caller = CallerOf(letter.session),
                                          .blocks = {&ref, 1},
                                          .done = letter.op == Op::kDecRefDone,
                                          .idempotency_key = key},
                                         now_));
  slots_[letter.session].touched = now_;
  if (is_repeat) {
    Expect(answer == keyed_->dropped, "a repeat is answered otherwise");
    return absl::OkStatus();
  }
  Drop(letter.session, letter.number);
  Remember(letter, key, ref);
  if (key != 0) keyed_->dropped = answer;
  return absl::OkStatus();
}

absl::Status World::Publish(const Letter& letter, uint64_t key, const BlockRef& ref) {
  const std::string text = letter.depth == 0 ? "x" : "xy";
  const PrefixKeys prefix = PrefixOf(options_.tenants[letter.session], text);
  const bool is_repeat = keyed_.has_value() && key != 0 && keyed_->key == key;
  KVPOOL_ASSIGN_OR_RETURN(const PublishAnswer answer,
                          ledger_.Publish({.caller = CallerOf(letter.session),
                                           .prefix = &prefix,
                                           .skip = letter.depth,
                                           .blocks = {&ref, 1},
                                           .idempotency_key = key},
                                          now_));
  slots_[letter.session].touched = now_;
  if (is_repeat) {
    Expect(answer == keyed_->published, "a repeat is answered otherwise");
    return absl::OkStatus();
  }
  const BlockInfo& block = before_[letter.number];
  Expect(!block.claimed, "a claimed block was published");
  Expect(text_[letter.number].empty() || text_[letter.number] == text,
         "a sealed block was published under another prefix");
  if (answer.published == 1) {
    text_[letter.number] = text;
    last_use_[letter.number] = calls_;
  }
  Remember(letter, key, ref);
  if (key != 0) keyed_->published = answer;
  return absl::OkStatus();
}

absl::Status World::Lookup(const Letter& letter, uint64_t key) {
  const PrefixKeys prefix = PrefixOf(options_.tenants[letter.session], "xy");
  const bool is_repeat = keyed_.has_value() && key != 0 && keyed_->key == key;
  KVPOOL_ASSIGN_OR_RETURN(const LookupAnswer answer,
                          ledger_.Lookup({.caller = CallerOf(letter.session),
                                          .prefix = &prefix,
                                          .acquire = true,
                                          .idempotency_key = key},
                                         now_));
  slots_[letter.session].touched = now_;
  if (is_repeat) {
    Expect(answer.blocks == keyed_->blocks, "a repeat is answered otherwise");
    return absl::OkStatus();
  }
  std::vector<BlockId> found;
  for (const BlockRef& each : answer.blocks) found.push_back(each.block);
  Expect(found == FindableOf(letter.session), "a lookup does not find what is published");
  for (const BlockId block : found) last_use_[ToIndex(block)] = calls_;
  Take(letter.session, answer.blocks);
  Remember(letter, key, {});
  if (key != 0) keyed_->blocks = answer.blocks;
  return absl::OkStatus();
}

absl::Status World::Evict(const Letter& letter) {
  const BlockRef ref = RefFor(letter);
  const bool is_one = letter.op == Op::kEvictOne;
  EvictCall call = {.caller = CallerOf(letter.session)};
  if (is_one) {
    call.count = 1;
  } else {
    call.blocks = {&ref, 1};
  }
  KVPOOL_ASSIGN_OR_RETURN(const EvictAnswer answer, ledger_.Evict(call, now_));
  slots_[letter.session].touched = now_;
  for (const BlockId block : answer.blocks) {
    const BlockInfo& evicted = before_[ToIndex(block)];
    Expect(evicted.published, "a block was evicted that was not findable");
    Expect(evicted.tenant == options_.tenants[letter.session], "another tenant's was evicted");
    if (is_one) Expect(evicted.state == BlockState::kCached, "a held block was evicted by count");
  }
  return absl::OkStatus();
}

absl::Status World::Pin(const Letter& letter) {
  const BlockRef ref = RefFor(letter);
  const bool is_write = letter.op == Op::kPinToWrite;
  PinCall call = {.caller = CallerOf(letter.session), .write_session = {}};
  (is_write ? call.writes : call.reads) = {&ref, 1};
  KVPOOL_ASSIGN_OR_RETURN(const PinOutcome outcome, ledger_.Pin(call, now_));
  slots_[letter.session].touched = now_;
  if (is_write) {
    Expect(!before_[letter.number].sealed, "a sealed block may be written to");
    Expect(!before_[letter.number].claimed, "a claimed block may be written to");
  }
  pins_.push_back({.id = outcome.id,
                   .session = letter.session,
                   .block = letter.number,
                   .is_write = is_write,
                   .is_granted = outcome.granted});
  return absl::OkStatus();
}

absl::Status World::Repeat() {
  const Keyed keyed = *keyed_;
  const auto is_held = [&](const BlockRef& ref) {
    return slots_[keyed.letter.session].references[ToIndex(ref.block)] > 0 &&
           before_[ToIndex(ref.block)].generation == ref.generation;
  };
  const absl::Status status = [&] {
    switch (keyed.letter.op) {
      case Op::kIncRef:
      case Op::kIncRefBare:
        return IncRef(keyed.letter, keyed.key, keyed.ref);
      case Op::kDecRef:
        return DecRef(keyed.letter, keyed.key, keyed.ref);
      case Op::kPublish:
        return Publish(keyed.letter, keyed.key, keyed.ref);
      case Op::kLookup:
        return Lookup(keyed.letter, keyed.key);
      default:
        return Alloc(keyed.letter, keyed.key, keyed.ref);
    }
  }();
  const bool is_spent = GetErrorDetail(status).reason == Reason::kKeySpent;
  Expect(status.ok() || is_spent, absl::StrCat("a repeat failed: ", status.ToString()));
  Expect(is_spent == !std::ranges::all_of(keyed.blocks, is_held),
         is_spent ? "a key is spent whose blocks are held" : "a key is not spent");
  return status;
}

void World::Remember(const Letter& letter, uint64_t key, const BlockRef& ref) {
  if (key == 0) return;
  keyed_ = Keyed{};
  keyed_->letter = letter;
  keyed_->number = slots_[letter.session].number;
  keyed_->key = key;
  keyed_->ref = ref;
}

BlockRef World::RefFor(const Letter& letter) const {
  if (letter.number >= kBlocks) return {};
  BlockRef ref = {.block = BlockId{letter.number}, .generation = after_[letter.number].generation};
  if (letter.op == Op::kIncRefBare) ref.generation = Generation{};
  if (letter.op == Op::kIncRefStale || letter.op == Op::kDecRefStale) {
    ref.generation = Generation{static_cast<uint64_t>(ref.generation) + 1};
  }
  return ref;
}

SessionId World::IdOf(uint8_t session) const { return MakeSessionId(slots_[session].number); }

Caller World::CallerOf(uint8_t session) const {
  return {.session = IdOf(session), .tenant = options_.tenants[session]};
}

}  // namespace kvpool::test
