#include <algorithm>

#include "absl/strings/str_cat.h"

#include "tests/model/ledger/call_text.h"
#include "tests/model/ledger/ledger_run.h"

namespace kvpool::test {

void LedgerRun::OpenSession() {
  const uint32_t number = ++last_session_;
  const std::string name = absl::StrCat("worker", number);
  OpenSessionCall call;
  call.id = MakeSessionId(number);
  call.tenant = random_.OneIn(3) ? "beta" : "alpha";
  call.client_name = name;
  if (!random_.OneIn(12)) call.model_id = "model";
  call.pid = 100 + number;
  call.uid = number;
  call.process = AnyProcess();
  call.ttl = Some(options_.max_ttl_ticks);
  if (random_.OneIn(4)) {
    const Caller other = AnyCaller();
    call.join = other.session;
    call.tenant = other.tenant;
    if (!random_.OneIn(10)) call.model_id = {};
  }
  if (options_.max_guarantee > 0 && random_.OneIn(2) && !call.join.has_value()) {
    call.guaranteed_blocks = random_.Below(options_.max_guarantee + 1);
  }
  if (random_.OneIn(50)) call.guaranteed_blocks = options_.ledger.num_blocks + random_.Below(2);
  const auto result = ledger_.OpenSession(call, now_);
  const Seen seen = Look();
  model_.OpenSession(call, now_, result, seen);
  Follow(ToText(call), ToText(result.status()), seen);
}

void LedgerRun::Attach() {
  const Caller caller = AnyCaller();
  const ProcessId process = AnyProcess();
  const absl::Status result = ledger_.Attach(caller, process, now_);
  const Seen seen = Look();
  model_.Attach(caller, process, now_, result, seen);
  Follow(absl::StrCat("Attach{", ToText(caller), " ", ToText(process), "}"), ToText(result), seen);
}

void LedgerRun::AddProcess() {
  const Caller caller = AnyCaller();
  const ProcessId process = AnyProcess();
  const absl::Status result = ledger_.AddProcess(caller, process, now_);
  const Seen seen = Look();
  model_.AddProcess(caller, process, now_, result, seen);
  Follow(absl::StrCat("AddProcess{", ToText(caller), " ", ToText(process), "}"), ToText(result),
         seen);
}

// Of a session with a stream, or of one that has ended: others have none that could end.
void LedgerRun::Detach() {
  const SessionId id = AnySession();
  const auto it = model_.state().sessions.find(id);
  if (model_.state().IsLive(id) && !it->second.stream.has_value()) return;
  ledger_.Detach(id, now_);
  const Seen seen = Look();
  model_.Detach(id, now_, seen);
  Follow(absl::StrCat("Detach{", ToText(id), "}"), "", seen);
}

void LedgerRun::BeginCall() {
  const Caller caller = AnyCaller();
  const absl::Status result = ledger_.BeginCall(caller, now_);
  const Seen seen = Look();
  model_.BeginCall(caller, now_, result, seen);
  Follow(absl::StrCat("BeginCall{", ToText(caller), "}"), ToText(result), seen);
}

void LedgerRun::EndCall() {
  const SessionId id = AnySession();
  if (model_.state().IsLive(id) && model_.state().sessions.at(id).long_calls == 0) return;
  ledger_.EndCall(id, now_);
  const Seen seen = Look();
  model_.EndCall(id, now_, seen);
  Follow(absl::StrCat("EndCall{", ToText(id), "}"), "", seen);
}

void LedgerRun::Close(const Caller& caller) {
  const absl::Status result = ledger_.CloseSession(caller, now_);
  const Seen seen = Look();
  model_.CloseSession(caller, now_, result, seen);
  Follow(absl::StrCat("CloseSession{", ToText(caller), "}"), ToText(result), seen);
}

// Makes it likelier that something that has ended is over.
void LedgerRun::CloseOrEndProcess() {
  std::vector<SessionId> ended;
  for (const auto& [id, session] : model_.state().sessions) {
    if (!session.is_live) ended.push_back(id);
  }
  if (random_.OneIn(2) || ended.empty()) return ProcessGone();
  const SessionId id = OneOf(ended);
  const bool is_beta = model_.state().sessions.at(id).tenant == "beta";
  Close({.session = id, .tenant = is_beta ? "beta" : "alpha"});
}

void LedgerRun::Terminate() {
  const SessionId id = AnySession();
  const bool release_claims = random_.OneIn(2);
  const absl::Status result = ledger_.TerminateSession(id, release_claims, now_);
  const Seen seen = Look();
  model_.TerminateSession(id, release_claims, now_, result, seen);
  Follow(absl::StrCat("TerminateSession{", ToText(id), release_claims ? " release" : "", "}"),
         ToText(result), seen);
}

void LedgerRun::ProcessGone() {
  std::vector<ProcessId> known;
  for (const auto& [id, session] : model_.state().sessions) {
    for (const ProcessId process : session.processes) {
      if (!model_.state().gone.contains(process)) known.push_back(process);
    }
  }
  if (known.empty()) return;
  // Nothing says whose claims end first where several do at one time.
  if (options_.ledger.claim_grace > Duration(0)) now_ += Some(1);
  const ProcessId process = OneOf(known);
  ledger_.ProcessGone(process, now_);
  const Seen seen = Look();
  model_.ProcessGone(process, now_, seen);
  Follow(absl::StrCat("ProcessGone{", ToText(process), "}"), "", seen);
}

void LedgerRun::Alloc() {
  AllocCall call;
  call.caller = AnyCaller();
  const uint32_t count = options_.ledger.num_blocks;
  call.count = random_.OneIn(4) ? random_.Below(count + 2) : random_.Below(4);
  call.allow_partial = random_.OneIn(6);
  if (random_.OneIn(2) && (!call.allow_partial || random_.OneIn(10))) {
    call.wait = Some(random_.OneIn(10) ? 100 : options_.max_wait_ticks);
    if (random_.OneIn(call.allow_partial ? 3 : 30)) call.wait = Duration(-random_.Below(2));
  }
  call.fill = AnyFill();
  std::vector<BlockRef> release;
  if (random_.OneIn(6)) release = SomeBlocks(call.caller.session);
  call.release = release;
  call.idempotency_key = AnyKey();
  call.queue = random_.OneIn(4) ? WaitQueue::kAdmit : WaitQueue::kGrow;
  MakeAlloc(call);
}

void LedgerRun::MakeAlloc(AllocCall call) {
  if (call.prefix != nullptr || !call.release.empty()) AdvanceIfSliced();
  if (!failure_.empty()) return;
  // Where only some blocks of a grant are filled, the others show by who holds them: so that this
  // is clear, no session waits for two such grants at a time.
  const auto is_partly_filled = [this](Fill fill) {
    return (fill == Fill::kUnspecified ? options_.ledger.fill_on_alloc : fill) ==
           Fill::kAcrossTenants;
  };
  for (const auto& queue : model_.state().waiters) {
    for (const ModelState::Waiter& waiter : queue) {
      if (waiter.call.caller.session == call.caller.session && is_partly_filled(waiter.call.fill) &&
          is_partly_filled(call.fill)) {
        call.fill = Fill::kZero;
      }
    }
  }
  const auto result = ledger_.Alloc(call, now_);
  const Seen seen = Look();
  model_.Alloc(call, now_, result, seen);
  const std::string text = !result.ok()                     ? ToText(result.status())
                           : result->pending != PendingId{} ? ToText(result->pending)
                                                            : ToText(result->answer);
  Follow(ToText(call), text, seen);
  if (call.idempotency_key == 0) return;
  Keyed keyed{.alloc = call, .kind = Keyed::kAlloc};
  keyed.list.assign(call.release.begin(), call.release.end());
  if (call.prefix != nullptr) keyed.prefix = *call.prefix;
  keyed_.push_back(keyed);
}

void LedgerRun::FillDone(const absl::Status& status) {
  const auto& fills = model_.state().fills;
  if (fills.empty()) return;
  const PendingId id = OneOf(fills).id;
  ledger_.FillDone(id, status, now_);
  const Seen seen = Look();
  model_.FillDone(id, status, now_, seen);
  Follow(absl::StrCat("FillDone{", ToText(id), " ", ToText(status), "}"), "", seen);
}

void LedgerRun::Cancel() {
  std::vector<PendingId> ids = {PendingId{1 + random_.Below(100)}};
  for (const auto& queue : model_.state().waiters) {
    for (const ModelState::Waiter& waiter : queue) ids.push_back(waiter.id);
  }
  for (const ModelState::Pin& pin : model_.state().pins) ids.push_back(pin.id);
  const PendingId id = OneOf(ids);
  const bool result = ledger_.Cancel(id, now_);
  const Seen seen = Look();
  model_.Cancel(id, now_, result, seen);
  Follow(absl::StrCat("Cancel{", ToText(id), "}"), result ? "true" : "false", seen);
}

void LedgerRun::IncRef() {
  IncRefCall call;
  call.caller = AnyCaller();
  call.idempotency_key = AnyKey();
  std::vector<BlockRef> list = SomeBlocks(call.caller.session);
  if (random_.OneIn(2)) {
    // What another worker of the tenant passed on.
    list.clear();
    for (uint32_t i = 0; i < options_.ledger.num_blocks; ++i) {
      const ModelState::Block& block = model_.state().blocks[i];
      const bool is_live = !block.refs.empty() || model_.state().IsFindable(i) || block.is_left;
      if (is_live && absl::string_view(block.tenant) == call.caller.tenant && random_.OneIn(3)) {
        list.push_back({.block = BlockId{i}, .generation = block.generation});
      }
    }
  }
  call.blocks = list;
  MakeIncRef(call);
}

void LedgerRun::MakeIncRef(const IncRefCall& call) {
  const absl::Status result = ledger_.IncRef(call, now_);
  const Seen seen = Look();
  model_.IncRef(call, now_, result, seen);
  Follow(ToText(call), ToText(result), seen);
  if (call.idempotency_key == 0) return;
  Keyed keyed{.inc = call, .kind = Keyed::kInc};
  keyed.list.assign(call.blocks.begin(), call.blocks.end());
  keyed_.push_back(keyed);
}

void LedgerRun::DecRef() {
  DecRefCall call;
  call.caller = AnyCaller();
  call.done = random_.OneIn(4);
  call.idempotency_key = AnyKey();
  const std::vector<BlockRef> list = SomeBlocks(call.caller.session);
  call.blocks = list;
  MakeDecRef(call);
}

void LedgerRun::MakeDecRef(const DecRefCall& call) {
  AdvanceIfSliced();
  if (!failure_.empty()) return;
  const auto result = ledger_.DecRef(call, now_);
  const Seen seen = Look();
  model_.DecRef(call, now_, result, seen);
  Follow(ToText(call),
         result.ok() ? absl::StrCat("freed=", result->freed, " cached=", result->cached,
                                    " available=", result->available)
                     : ToText(result.status()),
         seen);
  if (call.idempotency_key == 0) return;
  Keyed keyed{.dec = call, .kind = Keyed::kDec};
  keyed.list.assign(call.blocks.begin(), call.blocks.end());
  keyed_.push_back(keyed);
}

// One of the last keyed calls again, as after a lost answer.
void LedgerRun::Repeat() {
  if (keyed_.empty()) return;
  if (keyed_.size() > 12) keyed_.erase(keyed_.begin(), keyed_.begin() + 6);
  RepeatOne(OneOf(keyed_));
}

void LedgerRun::RepeatOne(Keyed keyed) {
  switch (keyed.kind) {
    case Keyed::kAlloc:
      keyed.alloc.release = keyed.list;
      if (keyed.alloc.prefix != nullptr) keyed.alloc.prefix = &keyed.prefix;
      return MakeAlloc(keyed.alloc);
    case Keyed::kInc:
      keyed.inc.blocks = keyed.list;
      return MakeIncRef(keyed.inc);
    case Keyed::kDec:
      keyed.dec.blocks = keyed.list;
      return MakeDecRef(keyed.dec);
    case Keyed::kPublish:
      keyed.publish.blocks = keyed.list;
      keyed.publish.prefix = &keyed.prefix;
      return MakePublish(keyed.publish);
    case Keyed::kLookup:
      keyed.lookup.prefix = &keyed.prefix;
      return MakeLookup(keyed.lookup);
  }
}

void LedgerRun::Pin() {
  PinCall call;
  call.caller = AnyCaller();
  std::vector<BlockRef> reads, writes;
  if (random_.OneIn(8)) call.write_session = AnySession();
  if (random_.OneIn(2)) reads = SomeBlocks(call.caller.session);
  if (random_.OneIn(2)) writes = SomeBlocks(call.write_session.value_or(call.caller.session));
  call.reads = reads;
  call.writes = writes;
  const auto result = ledger_.Pin(call, now_);
  const Seen seen = Look();
  model_.Pin(call, now_, result, seen);
  Follow(ToText(call),
         result.ok() ? absl::StrCat(ToText(result->id), result->granted ? " granted" : " waits")
                     : ToText(result.status()),
         seen);
}

void LedgerRun::Unpin() {
  std::vector<PendingId> granted;
  for (const ModelState::Pin& pin : model_.state().pins) {
    const bool is_fill =
        std::ranges::count(model_.state().fills, pin.id, &ModelState::Fill::id) > 0;
    if (pin.is_granted && !is_fill) granted.push_back(pin.id);
  }
  if (granted.empty()) return;
  const PendingId id = OneOf(granted);
  ledger_.Unpin(id, now_);
  const Seen seen = Look();
  model_.Unpin(id, now_, seen);
  Follow(absl::StrCat("Unpin{", ToText(id), "}"), "", seen);
}

void LedgerRun::CheckHeld() {
  Advance();
  const Caller caller = AnyCaller();
  const std::vector<BlockRef> list = SomeBlocks(caller.session);
  if (!failure_.empty()) return;
  const absl::Status result = ledger_.CheckHeld(caller, list);
  const Seen seen = Look();
  model_.CheckHeld(caller, list, result);
  Follow(absl::StrCat("CheckHeld{", ToText(caller), " ", ToText(list), "}"), ToText(result), seen);
}

void LedgerRun::Advance() {
  ledger_.Advance(now_);
  const Seen seen = Look();
  model_.Advance(now_, seen);
  Follow("Advance{}", "", seen);
}

// Where ended sessions are reclaimed in slices, what became unfindable in a call does not show
// when it did: so that this is clear, nothing falls due in the call.
void LedgerRun::AdvanceIfSliced() {
  if (options_.ledger.limits.reclaim_slice < options_.ledger.num_blocks) Advance();
}

void LedgerRun::Reclaim(uint32_t max_references) {
  const bool result = ledger_.Reclaim(max_references, now_);
  const Seen seen = Look();
  model_.Reclaim(max_references, now_, result, seen);
  Follow(absl::StrCat("Reclaim{", max_references, "}"), result ? "true" : "false", seen);
}

}  // namespace kvpool::test
