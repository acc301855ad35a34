#include "tests/model/ledger/ledger_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "tests/model/ledger/call_text.h"

namespace kvpool::test {
namespace {

constexpr size_t kLogLines = 40;
// Far more than it takes to end everything.
constexpr uint32_t kDrainSteps = 10'000;
constexpr Duration kTick = std::chrono::microseconds(1);
constexpr absl::string_view kTenants[] = {"alpha", "beta"};

absl::string_view OtherTenant(absl::string_view tenant) {
  return tenant == kTenants[0] ? kTenants[1] : kTenants[0];
}

// The tenant's name, which lives as long as the process.
absl::string_view Lasting(absl::string_view tenant) {
  return tenant == kTenants[0] ? kTenants[0] : kTenants[1];
}

}  // namespace

LedgerRun::LedgerRun(const RunOptions& options, Choices choices)
    : options_(options),
      random_(std::move(choices)),
      ledger_(options.ledger),
      model_(options.ledger),
      now_(std::chrono::seconds(1)) {}

std::string LedgerRun::Run(uint32_t steps) {
  uint32_t step = 0;
  for (; step < steps && failure_.empty() && !random_.is_used_up(); ++step) Step();
  const ModelState& state = model_.state();
  uint32_t left = kDrainSteps;
  while (failure_.empty() &&
         !(state.sessions.empty() && state.fills.empty() && state.pins.empty() &&
           state.findable.empty() && state.Left({}).empty())) {
    if (left-- == 0) failure_ = "there is no end to what ended sessions hold";
    DrainStep();
  }
  if (failure_.empty()) failure_ = CheckAllIsFree();
  if (failure_.empty()) return {};
  return absl::StrCat("step ", step, ": ", failure_, "\nthe last calls:\n",
                      absl::StrJoin(log_, "\n"));
}

void LedgerRun::Step() {
  PassTime();
  const ModelState& state = model_.state();
  const auto live = static_cast<uint32_t>(state.Counts().sessions);
  if (live < options_.sessions && random_.OneIn(4)) return OpenSession();
  if (state.sessions.size() > live + 2 && random_.OneIn(3)) return CloseOrEndProcess();
  if (state.fills.size() > 2) return FillDone(absl::OkStatus());
  if (state.pins.size() > 5) return Unpin();
  if (random_.Below(100) < options_.cache_calls) return CacheStep();
  const uint32_t choice = random_.Below(100);
  if (choice < 1) return OpenSession();
  if (choice < 4) return Attach();
  if (choice < 5) return AddProcess();
  if (choice < 6) return Detach();
  if (choice < 7) return BeginCall();
  if (choice < 9) return EndCall();
  if (choice < 10) return Close(AnyCaller());
  if (choice < 11) return Terminate();
  if (choice < 12) return ProcessGone();
  if (choice < 32) return Alloc();
  if (choice < 40) {
    return FillDone(random_.OneIn(6) ? absl::InternalError("a fill failed") : absl::OkStatus());
  }
  if (choice < 43) return Cancel();
  if (choice < 53) return IncRef();
  if (choice < 69) return DecRef();
  if (choice < 73) return Repeat();
  if (choice < 80) return Pin();
  if (choice < 88) return Unpin();
  if (choice < 91) return CheckHeld();
  if (choice < 96) return Advance();
  Reclaim(random_.Below(4));
}

// Ends what there is, a piece at a time.
void LedgerRun::DrainStep() {
  const ModelState& state = model_.state();
  if (!state.fills.empty()) return FillDone(absl::OkStatus());
  if (std::ranges::any_of(state.pins, &ModelState::Pin::is_granted)) return Unpin();
  if (!state.findable.empty()) return ResetPrefixes();
  if (!state.Left({}).empty()) return Reclaim(2);
  // Time does not pass here, so claims do not end by themselves.
  const auto has_ended = [](const auto& entry) { return !entry.second.is_live; };
  if (random_.OneIn(2) && std::ranges::any_of(state.sessions, has_ended)) return Reclaim(2);
  for (const auto& [id, session] : state.sessions) {
    if (session.joined.has_value()) continue;
    return Close({.session = id, .tenant = Lasting(session.tenant)});
  }
  const auto& [id, session] = *state.sessions.begin();
  Close({.session = id, .tenant = Lasting(session.tenant)});
}

// After everybody has left: each block is free, and is given out once.
std::string LedgerRun::CheckAllIsFree() {
  const LedgerLimits& limits = options_.ledger.limits;
  if (ledger_.counts().free_blocks != options_.ledger.num_blocks) return "not all blocks are free";
  if (!ledger_.is_idle() || !ledger_.ListSessions().empty()) return "somebody is left";
  std::set<uint32_t> given;
  for (uint32_t tenant = 0; given.size() < options_.ledger.num_blocks; ++tenant) {
    const std::string name = absl::StrCat("drain", tenant);
    const Caller caller{.session = MakeSessionId(++last_session_), .tenant = name};
    OpenSessionCall open;
    open.id = caller.session;
    open.tenant = name;
    open.ttl = limits.max_ttl;
    const auto opened = ledger_.OpenSession(open, now_);
    if (!opened.ok()) return "OpenSession fails at the end: " + ToText(opened.status());
    while (true) {
      AllocCall call;
      call.caller = caller;
      call.count = 1;
      const auto one = ledger_.Alloc(call, now_);
      if (!one.ok()) break;
      AllocAnswer answer = one->answer;
      if (one->pending != PendingId{}) {
        ledger_.FillDone(one->pending, absl::OkStatus(), now_);
        for (const LedgerEvent& event : ledger_.TakeEvents()) {
          const auto* done = std::get_if<AllocDone>(&event);
          if (done != nullptr && done->result.ok()) answer = *done->result;
        }
      }
      if (answer.blocks.size() != 1 || !given.insert(ToIndex(answer.blocks[0].block)).second) {
        return "a block is given out twice at the end, or none";
      }
    }
    if (tenant > options_.ledger.num_blocks) return "not every block is given out at the end";
  }
  const absl::Status invariants = ledger_.CheckInvariants();
  return invariants.ok() ? "" : "CheckInvariants at the end: " + ToText(invariants);
}

Seen LedgerRun::Look() {
  Seen seen;
  seen.events = ledger_.TakeEvents();
  for (uint32_t i = 0; i < options_.ledger.num_blocks; ++i) {
    seen.blocks.push_back(ledger_.GetBlock(BlockId{i}));
  }
  return seen;
}

void LedgerRun::Follow(const std::string& call, const std::string& result, const Seen& seen) {
  std::string line = absl::StrCat("t=", now_.time_since_epoch().count(), " ", call, " -> ", result);
  for (const LedgerEvent& event : seen.events) absl::StrAppend(&line, " ", ToText(event));
  log_.push_back(line);
  if (log_.size() > kLogLines) log_.pop_front();
  failure_ = model_.Check(ledger_, seen);
  if (failure_.empty()) return;
  log_.push_back("the ledger's blocks then:");
  for (const BlockInfo& info : seen.blocks) log_.push_back(ToText(info));
}

// Mostly a little; at times up to what falls due next, to just before it, or far past it.
void LedgerRun::PassTime() {
  const uint32_t choice = random_.Below(100);
  const auto next = model_.state().NextDeadline();
  if (choice < 55) return;
  if (choice < 80) {
    now_ += Some(2);
  } else if (choice < 90 && next.has_value()) {
    now_ = std::max(now_, *next);
  } else if (choice < 94 && next.has_value()) {
    now_ = std::max(now_, *next - Duration(1));
  } else if (choice < 99) {
    now_ += Some(20);
  } else {
    now_ += Some(300);
  }
}

Duration LedgerRun::Some(uint32_t ticks) {
  const Duration time = kTick * (1 + random_.Below(ticks));
  return options_.has_jitter ? time + Duration(random_.Below(999)) : time;
}

SessionId LedgerRun::AnySession() {
  std::vector<SessionId> live, all;
  for (const auto& [id, session] : model_.state().sessions) {
    all.push_back(id);
    if (session.is_live && !session.joined.has_value()) live.push_back(id);
  }
  const uint32_t choice = random_.Below(100);
  if (choice < 92 && !live.empty()) return OneOf(live);
  if (choice < 98 && !all.empty()) return OneOf(all);
  return MakeSessionId(1 + random_.Below(last_session_ + 1));
}

Caller LedgerRun::AnyCaller() {
  const SessionId id = AnySession();
  const auto it = model_.state().sessions.find(id);
  const absl::string_view tenant =
      it == model_.state().sessions.end() ? kTenants[0] : Lasting(it->second.tenant);
  return {.session = id, .tenant = random_.OneIn(50) ? OtherTenant(tenant) : tenant};
}

// One that is not gone: a new one, or one that has other sessions.
ProcessId LedgerRun::AnyProcess() {
  std::vector<ProcessId> known;
  for (const auto& [id, session] : model_.state().sessions) {
    for (const ProcessId process : session.processes) {
      if (!model_.state().gone.contains(process)) known.push_back(process);
    }
  }
  return known.empty() || random_.OneIn(2) ? ProcessId{++last_process_} : OneOf(known);
}

Generation LedgerRun::AnyGeneration(uint32_t block) {
  const auto right = static_cast<uint64_t>(model_.state().blocks[block].generation);
  const uint32_t choice = random_.Below(20);
  if (choice < 9) return Generation{right};
  return Generation{choice < 18 ? 0 : choice < 19 ? right + 1 : right / 2};
}

BlockRef LedgerRun::AnyBlock() {
  const uint32_t count = options_.ledger.num_blocks;
  if (random_.OneIn(40)) {
    return {.block = BlockId{random_.OneIn(2) ? count : UINT32_MAX}, .generation = Generation{1}};
  }
  const uint32_t block = random_.Below(count);
  const Generation right = model_.state().blocks[block].generation;
  return {.block = BlockId{block}, .generation = random_.OneIn(2) ? right : AnyGeneration(block)};
}

// References that the session has, each entry one of its own; seldom more, unless `is_right`.
std::vector<BlockRef> LedgerRun::SomeHeld(const SessionId& session, bool is_right) {
  std::vector<BlockRef> all, list;
  for (uint32_t i = 0; i < options_.ledger.num_blocks; ++i) {
    for (uint32_t j = 0; j < model_.state().RefCount(i, session); ++j) {
      const Generation right = model_.state().blocks[i].generation;
      all.push_back(
          {.block = BlockId{i},
           .generation = is_right ? (random_.OneIn(2) ? right : Generation{}) : AnyGeneration(i)});
    }
  }
  for (uint32_t wanted = random_.Below(4); wanted > 0 && !all.empty(); --wanted) {
    const uint32_t place = random_.Below(static_cast<uint32_t>(all.size()));
    list.push_back(all[place]);
    if (is_right || !random_.OneIn(8)) all.erase(all.begin() + place);
  }
  return list;
}

std::vector<BlockRef> LedgerRun::SomeBlocks(const SessionId& session) {
  const uint32_t choice = random_.Below(40);
  if (choice < 24) return SomeHeld(session, /*is_right=*/true);
  if (choice < 30) return SomeHeld(session, /*is_right=*/false);
  const uint32_t limit = options_.ledger.limits.max_blocks_per_call;
  std::vector<BlockRef> list(choice == 39 ? limit + 1 : random_.Below(4));
  for (BlockRef& ref : list) ref = AnyBlock();
  return list;
}

uint64_t LedgerRun::AnyKey() { return random_.OneIn(4) ? 1 + random_.Below(6) : 0; }

Fill LedgerRun::AnyFill() {
  constexpr Fill kFills[] = {Fill::kUnspecified, Fill::kUnspecified, Fill::kAcrossTenants,
                             Fill::kZero, Fill::kPoison};
  // What is being filled cannot be published.
  if (options_.cache_calls > 50 && !random_.OneIn(4)) return Fill::kUnspecified;
  return kFills[random_.Below(5)];
}

}  // namespace kvpool::test
