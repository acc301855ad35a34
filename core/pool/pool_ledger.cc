#include "core/pool/pool_ledger.h"

#include <algorithm>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

// Calls `visit(first, step)` for each run of at most kBlocksAStep blocks, until one fails.
template <typename Visit>
absl::Status ForEachStep(std::span<BlockRef> blocks, Visit visit) {
  for (size_t first = 0; first < blocks.size(); first += kBlocksAStep) {
    const size_t count = std::min<size_t>(kBlocksAStep, blocks.size() - first);
    KVPOOL_RETURN_IF_ERROR(visit(first, blocks.subspan(first, count)));
  }
  return absl::OkStatus();
}

// Fills in or compares the generation of each of `blocks`, which begin at index `first` of a list.
absl::Status PinDownStep(const Ledger& ledger, size_t first, std::span<BlockRef> blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    BlockRef& ref = blocks[i];
    const BlockInfo info = ledger.GetBlock(ref.block);
    const uint32_t id = ToIndex(ref.block);
    ErrorDetail detail{.index = static_cast<uint32_t>(first + i), .block_id = id};
    if (info.state == BlockState::kFree) {
      detail.reason = Reason::kNotLive;
      return MakeError(absl::StatusCode::kFailedPrecondition, detail,
                       absl::StrCat("entry ", first + i, ": block ", id, " is free"));
    }
    if (ref.generation != Generation{} && ref.generation != info.generation) {
      detail.reason = Reason::kStaleBlock;
      return MakeError(absl::StatusCode::kAborted, detail,
                       absl::StrCat("entry ", first + i, ": block ", id, " is at generation ",
                                    static_cast<uint64_t>(info.generation), ", not ",
                                    static_cast<uint64_t>(ref.generation)));
    }
    ref.generation = info.generation;
  }
  return absl::OkStatus();
}

}  // namespace

PoolLedger::PoolLedger(const LedgerOptions& options, Clock clock, PoolObserver& observer,
                       FillStarter start_fill)
    : num_blocks_(options.num_blocks),
      max_blocks_per_call_(options.limits.max_blocks_per_call),
      clock_(std::move(clock)),
      observer_(observer),
      start_fill_(std::move(start_fill)),
      ledger_(options) {}

PoolLedger::~PoolLedger() {
  absl::flat_hash_map<WatchId, WatchCallback> watches;
  {
    const MutexLock lock(mutex_);
    watches.swap(watches_);
  }
  for (const auto& [id, wake] : watches) wake();
}

PendingId PoolLedger::Alloc(const AllocCall& call, AllocCallback done,
                            const std::shared_ptr<const void>& keep_alive) {
  absl::StatusOr<AllocOutcome> outcome;
  AllocCallback answer_now;
  PendingId id{};
  bool must_deliver = false;
  {
    const MutexLock lock(mutex_);
    outcome = ledger_.Alloc(call, clock_());
    if (outcome.ok()) id = outcome->pending;
    // In the same step, since the answer may be on its way to another thread right after it.
    if (id != PendingId{}) {
      allocs_.emplace(id, PendingAlloc{std::move(done), keep_alive});
    } else {
      answer_now = std::move(done);
    }
    must_deliver = CollectEvents();
  }
  if (answer_now != nullptr) {
    if (outcome.ok()) {
      answer_now(std::move(outcome->answer));
    } else {
      answer_now(std::move(outcome).status());
    }
  }
  if (must_deliver) Deliver();
  if (id == PendingId{}) return id;
  const MutexLock lock(mutex_);
  return allocs_.contains(id) ? id : PendingId{};
}

void PoolLedger::Cancel(PendingId id) {
  std::optional<PendingAlloc> cancelled;
  bool must_deliver = false;
  {
    const MutexLock lock(mutex_);
    const auto found = allocs_.find(id);
    if (found != allocs_.end() && ledger_.Cancel(id, clock_())) {
      cancelled = std::move(found->second);
      allocs_.erase(found);
    }
    must_deliver = CollectEvents();
  }
  if (cancelled.has_value()) cancelled->done(absl::CancelledError("the call was cancelled"));
  if (must_deliver) Deliver();
}

void PoolLedger::Pin(const PinCall& call, PinCallback done) {
  absl::StatusOr<PinOutcome> outcome;
  PinCallback answer_now;
  bool must_deliver = false;
  {
    const MutexLock lock(mutex_);
    outcome = ledger_.Pin(call, clock_());
    if (outcome.ok() && !outcome->granted) {
      pins_.emplace(outcome->id, std::move(done));
    } else {
      answer_now = std::move(done);
    }
    must_deliver = CollectEvents();
  }
  if (answer_now != nullptr) {
    if (outcome.ok()) {
      answer_now(outcome->id);
    } else {
      answer_now(std::move(outcome).status());
    }
  }
  if (must_deliver) Deliver();
}

void PoolLedger::Unpin(PendingId id) {
  Run([id](Ledger& ledger, TimePoint now) { ledger.Unpin(id, now); });
}

absl::Status PoolLedger::UnpinHeld(PendingId id, const Caller& caller, const BlockRef& block) {
  return Run([&](Ledger& ledger, TimePoint now) {
    absl::Status held = ledger.CheckHeld(caller, std::span(&block, 1));
    ledger.Unpin(id, now);
    return held;
  });
}

WatchId PoolLedger::OpenWatch(const WatchCall& call, const WatchCallback& wake) {
  const MutexLock lock(mutex_);
  const WatchId id = ledger_.watches().Open(call);
  watches_.emplace(id, wake);
  return id;
}

WatchProgress PoolLedger::ReadWatch(WatchId id, std::vector<PrefixEvent>& events) {
  const MutexLock lock(mutex_);
  return ledger_.watches().Read(id, kBlocksAStep, events);
}

uint64_t PoolLedger::WatchSequence(WatchId id) const {
  const MutexLock lock(mutex_);
  return ledger_.watches().sequence(id);
}

void PoolLedger::CloseWatch(WatchId id) {
  WatchCallback closed;  // Destroyed without the mutex.
  const MutexLock lock(mutex_);
  ledger_.watches().Close(id);
  const auto found = watches_.find(id);
  closed = std::move(found->second);
  watches_.erase(found);
}

absl::Status PoolLedger::CheckPin(const PinCall& call) {
  return Run([&call](Ledger& ledger, TimePoint now) {
    const absl::StatusOr<PinOutcome> outcome = ledger.Pin(call, now);
    if (!outcome.ok()) return outcome.status();
    if (outcome->granted) {
      ledger.Unpin(outcome->id, now);
    } else {
      KVPOOL_CHECK(ledger.Cancel(outcome->id, now));
    }
    return absl::OkStatus();
  });
}

absl::Status PoolLedger::PinDown(const Caller& caller, std::span<BlockRef> blocks) const {
  const auto check_held = [&] {
    return Read([&](const Ledger& ledger) { return ledger.CheckHeld(caller, blocks); });
  };
  KVPOOL_RETURN_IF_ERROR(check_held());
  const auto has_generation = [](const BlockRef& ref) { return ref.generation != Generation{}; };
  if (std::ranges::all_of(blocks, has_generation)) return absl::OkStatus();
  absl::Status pinned = ForEachStep(blocks, [&](size_t first, std::span<BlockRef> step) {
    return Read([&](const Ledger& ledger) {
      KVPOOL_RETURN_IF_ERROR(ledger.CheckHeld(caller, step));
      return PinDownStep(ledger, first, step);
    });
  });
  if (pinned.ok()) return pinned;
  // Let go since the first check, which alone counts its indexes from the start of the list.
  KVPOOL_RETURN_IF_ERROR(check_held());
  return absl::AbortedError("a block of the list was let go and taken again meanwhile");
}

absl::Status PoolLedger::PinDownLive(std::span<BlockRef> blocks) const {
  if (blocks.size() > max_blocks_per_call_) {
    return absl::InvalidArgumentError(absl::StrCat(blocks.size(), " blocks in a list, but at most ",
                                                   max_blocks_per_call_, " a call"));
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint32_t id = ToIndex(blocks[i].block);
    if (id >= num_blocks_) {
      return MakeError(absl::StatusCode::kInvalidArgument,
                       {.index = static_cast<uint32_t>(i), .block_id = id},
                       absl::StrCat("entry ", i, ": block ", id, " is not in the pool of ",
                                    num_blocks_, " blocks"));
    }
  }
  return ForEachStep(blocks, [this](size_t first, std::span<BlockRef> step) {
    return Read([&](const Ledger& ledger) { return PinDownStep(ledger, first, step); });
  });
}

bool PoolLedger::CollectEvents() {
  std::vector<LedgerEvent> events = ledger_.TakeEvents();
  if (events.empty()) return false;
  events_.insert(events_.end(), std::make_move_iterator(events.begin()),
                 std::make_move_iterator(events.end()));
  return !std::exchange(delivering_, true);
}

void PoolLedger::Deliver() {
  for (;;) {
    std::vector<Delivery> deliveries;
    {
      const MutexLock lock(mutex_);
      if (events_.empty()) {
        delivering_ = false;
        return;
      }
      deliveries.reserve(events_.size());
      for (LedgerEvent& event : events_) deliveries.push_back(MakeDelivery(std::move(event)));
      events_.clear();
    }
    for (Delivery& deliver : deliveries) deliver();
  }
}

PoolLedger::Delivery PoolLedger::MakeDelivery(LedgerEvent event) {
  if (auto* alloc = std::get_if<AllocDone>(&event)) {
    auto pending = allocs_.extract(alloc->id);
    KVPOOL_CHECK(!pending.empty());
    return [call = std::move(pending.mapped()), result = std::move(alloc->result)]() mutable {
      call.done(std::move(result));
    };
  }
  if (auto* pin = std::get_if<PinDone>(&event)) {
    auto pending = pins_.extract(pin->id);
    KVPOOL_CHECK(!pending.empty());
    return [done = std::move(pending.mapped()), id = pin->id,
            status = std::move(pin->status)]() mutable {
      if (status.ok()) {
        done(id);
      } else {
        done(std::move(status));
      }
    };
  }
  if (auto* fill = std::get_if<FillNeeded>(&event)) {
    return [this, fill = std::move(*fill)]() mutable { start_fill_(std::move(fill)); };
  }
  if (const auto* ended = std::get_if<SessionEnded>(&event)) {
    return [this, ended = *ended] { observer_.OnSessionEnded(ended.id, ended.reason); };
  }
  if (const auto* forgotten = std::get_if<SessionForgotten>(&event)) {
    return [this, id = forgotten->id] { observer_.OnSessionForgotten(id); };
  }
  if (const auto* ready = std::get_if<WatchReady>(&event)) {
    const auto found = watches_.find(ready->id);
    // Closed before it could be told.
    if (found == watches_.end()) return [] {};
    return [wake = found->second] { wake(); };
  }
  const auto& gone = std::get<MemberGone>(event);
  return [this, id = gone.id] { observer_.OnMemberGone(id); };
}

}  // namespace kvpool
