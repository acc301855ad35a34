#include "tests/model/ledger/model_state.h"

#include <algorithm>

namespace kvpool::test {
namespace {

bool Names(const std::vector<BlockRef>& list, uint32_t block) {
  return std::ranges::any_of(list,
                             [&](const BlockRef& ref) { return ToIndex(ref.block) == block; });
}

bool NamesAny(const std::vector<BlockRef>& list, const std::vector<BlockRef>& others) {
  return std::ranges::any_of(
      list, [&](const BlockRef& ref) { return Names(others, ToIndex(ref.block)); });
}

void Lower(std::optional<TimePoint>* least, std::optional<TimePoint> time) {
  if (time.has_value() && (!least->has_value() || *time < **least)) *least = time;
}

}  // namespace

AllocCall ModelState::Waiter::Call() const {
  AllocCall whole = call;
  whole.caller.tenant = tenant;
  whole.prefix = prefix.get();
  whole.release = release;
  return whole;
}

ModelState::ModelState(const LedgerOptions& ledger_options)
    : options(ledger_options), blocks(ledger_options.num_blocks) {
  for (uint32_t i = options.num_blocks; i-- > 0;) free_groups.push_back({i});
}

bool ModelState::IsLive(const SessionId& session) const {
  const auto it = sessions.find(session);
  return it != sessions.end() && it->second.is_live;
}

std::set<ProcessId> ModelState::Claimants(const SessionId& id) const {
  std::set<ProcessId> all;
  for (const auto& [other, session] : sessions) {
    if ((other == id || session.joined == id) && !session.is_vouched) {
      all.insert(session.processes.begin(), session.processes.end());
    }
  }
  return all;
}

std::optional<TimePoint> ModelState::ClaimsEnd(const SessionId& id) const {
  for (const ProcessId process : Claimants(id)) {
    if (!gone.contains(process)) return {};
  }
  const TimePoint last = sessions.at(id).last_gone;
  return last == TimePoint::min() ? last : last + options.claim_grace;
}

bool ModelState::IsOver(const SessionId& id) const {
  const auto end = ClaimsEnd(id);
  return sessions.at(id).is_vouched || (end.has_value() && *end <= now);
}

bool ModelState::IsClaimed(uint32_t block) const {
  return std::ranges::any_of(
      sessions, [block](const auto& entry) { return entry.second.claims.contains(block); });
}

bool ModelState::IsPinned(uint32_t block) const {
  return std::ranges::any_of(pins, [&](const Pin& pin) {
    return pin.is_granted && (Names(pin.reads, block) || Names(pin.writes, block));
  });
}

bool ModelState::MustWait(const Pin& pin) const {
  bool is_earlier = true;
  for (const Pin& other : pins) {
    if (other.id == pin.id) {
      is_earlier = false;
    } else if ((is_earlier || other.is_granted) &&
               (NamesAny(pin.writes, other.reads) || NamesAny(pin.writes, other.writes) ||
                NamesAny(pin.reads, other.writes))) {
      return true;
    }
  }
  return false;
}

BlockState ModelState::StateOf(uint32_t block) const {
  if (!blocks[block].refs.empty()) return BlockState::kHeld;
  if (blocks[block].is_free) return BlockState::kFree;
  const bool is_caches = IsFindable(block) || blocks[block].is_left;
  return is_caches && !IsPinned(block) ? BlockState::kCached : BlockState::kQuarantined;
}

uint32_t ModelState::RefCount(uint32_t block) const {
  return SharedRefs(block) + (IsFindable(block) || blocks[block].is_left ? 1U : 0U);
}

uint32_t ModelState::SharedRefs(uint32_t block) const {
  uint32_t count = 0;
  for (const auto& [session, references] : blocks[block].refs) count += references;
  return count;
}

uint32_t ModelState::RefCount(uint32_t block, const SessionId& session) const {
  const auto it = blocks[block].refs.find(session);
  return it == blocks[block].refs.end() ? 0 : it->second;
}

uint32_t ModelState::CountBlocks(BlockState state) const {
  uint32_t count = 0;
  for (uint32_t i = 0; i < blocks.size(); ++i) count += StateOf(i) == state ? 1U : 0U;
  return count;
}

uint32_t ModelState::CountRoom() const {
  return CountBlocks(BlockState::kFree) + CountBlocks(BlockState::kCached);
}

uint32_t ModelState::HeldBlocks(const SessionId& session) const {
  uint32_t count = 0;
  for (const Block& block : blocks) count += static_cast<uint32_t>(block.refs.count(session));
  return count;
}

uint64_t ModelState::References(const SessionId& session) const {
  uint64_t count = 0;
  for (uint32_t i = 0; i < blocks.size(); ++i) count += RefCount(i, session);
  return count;
}

uint32_t ModelState::Unfilled(const SessionId& session) const {
  if (!IsLive(session)) return 0;
  const uint32_t guarantee = sessions.at(session).guarantee;
  const uint32_t held = guarantee == 0 ? 0 : HeldBlocks(session);
  return guarantee > held ? guarantee - held : 0;
}

uint32_t ModelState::QuotaLeft(const std::string& tenant) const {
  if (options.max_blocks_per_tenant == 0) return options.num_blocks;
  uint32_t used = 0;
  for (uint32_t i = 0; i < blocks.size(); ++i) {
    const BlockState block = blocks[i].tenant == tenant ? StateOf(i) : BlockState::kFree;
    // What is cached it can evict.
    used += block == BlockState::kHeld || block == BlockState::kQuarantined ? 1U : 0U;
  }
  return used < options.max_blocks_per_tenant ? options.max_blocks_per_tenant - used : 0;
}

uint32_t ModelState::Promised() const {
  uint32_t promised = 0;
  for (const auto& [id, session] : sessions) promised += Unfilled(id);
  return promised;
}

uint32_t ModelState::Unreserved(const SessionId& session, bool is_first, uint32_t shared) const {
  const uint32_t room = CountRoom();
  const uint32_t unfilled = Unfilled(session);
  const uint32_t promised = Promised() - std::min(unfilled, shared);
  const uint32_t own = std::min(room, unfilled - std::min(unfilled, shared));
  return own + (is_first && room > promised ? room - promised : 0);
}

uint32_t ModelState::Available(const SessionId& session, bool is_first) const {
  return std::min(Unreserved(session, is_first), QuotaLeft(sessions.at(session).tenant));
}

uint32_t ModelState::Available(const SessionId& session) const {
  return Available(session, waiters[0].empty());
}

std::optional<TimePoint> ModelState::Expiry(const SessionId& id) const {
  const Session& session = sessions.at(id);
  if (!session.is_live || session.stream.has_value() || session.long_calls > 0) return {};
  for (const auto& queue : waiters) {
    for (const Waiter& waiter : queue) {
      if (waiter.call.caller.session == id) return {};
    }
  }
  for (const Fill& fill : fills) {
    if (fill.session == id) return {};
  }
  for (const Pin& pin : pins) {
    if (pin.reader == id) return {};
  }
  return session.last_call + session.ttl;
}

std::optional<TimePoint> ModelState::NextDeadline() const {
  std::optional<TimePoint> least;
  for (const auto& [id, session] : sessions) Lower(&least, Expiry(id));
  for (const auto& queue : waiters) {
    for (const Waiter& waiter : queue) Lower(&least, waiter.deadline);
  }
  for (const auto& [id, session] : sessions) {
    if (!session.is_live && !IsOver(id)) {
      Lower(&least, ClaimsEnd(id));
    }
  }
  return least;
}

LedgerCounts ModelState::Counts() const {
  return {.free_blocks = CountBlocks(BlockState::kFree),
          .cached_blocks = CountBlocks(BlockState::kCached),
          .held_blocks = CountBlocks(BlockState::kHeld),
          .quarantined_blocks = CountBlocks(BlockState::kQuarantined),
          .published_blocks = static_cast<uint32_t>(findable.size()),
          .sessions = static_cast<uint32_t>(std::ranges::count_if(
              sessions, [](const auto& entry) { return entry.second.is_live; })),
          .waiting_calls = static_cast<uint32_t>(waiters[0].size() + waiters[1].size())};
}

bool ModelState::IsIdle() const {
  return std::ranges::none_of(sessions, [this](const auto& entry) {
    const Session& session = entry.second;
    return session.is_live || !IsOver(entry.first);
  });
}

}  // namespace kvpool::test
