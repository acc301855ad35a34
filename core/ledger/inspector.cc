#include "core/ledger/inspector.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/error.h"

namespace kvpool {
namespace {

SessionState StateOf(const Session& session) {
  if (session.is_live) {
    return session.attached_to.has_value() ? SessionState::kAttached : SessionState::kUnattached;
  }
  const bool is_dropping = session.held.head != kNoHolder || session.is_vouched;
  return is_dropping ? SessionState::kClosing : SessionState::kClaiming;
}

}  // namespace

LedgerCounts Inspector::Counts() const {
  const BlockTable& blocks = state_.references.blocks();
  return {.free_blocks = blocks.free_count(),
          .cached_blocks = blocks.cached_count(),
          .held_blocks = blocks.held_count(),
          .quarantined_blocks = blocks.quarantined_count(),
          .published_blocks = state_.references.cache().index().findable_count(),
          .sessions = state_.sessions.live_count(),
          .waiting_calls = state_.waits.size()};
}

bool Inspector::IsIdle() const {
  return std::ranges::all_of(state_.sessions.by_serial(), [this](const auto& entry) {
    return state_.sessions.at(entry.second).is_vouched;
  });
}

BlockInfo Inspector::Block(BlockId block) const {
  const References& references = state_.references;
  KVPOOL_CHECK(ToIndex(block) < references.blocks().num_blocks());
  const BlockRecord& record = references.blocks().record(block);
  BlockInfo info;
  info.block = block;
  info.generation = Generation{record.generation};
  info.state = references.blocks().state(block);
  info.ref_count = references.blocks().ref_count(block);
  info.published = references.cache().is_findable(block);
  info.sealed = record.has(BlockRecord::kSealed);
  info.claimed = state_.claims.IsClaimed(block);
  info.tenant = state_.tenants.name(record.tenant);
  std::vector<std::pair<uint64_t, BlockHolder>> holders;
  for (const HolderSlot slot : references.holders().ListHolders(block)) {
    const Holder& holder = references.holders().at(slot);
    if (holder.count == 0) continue;  // A claim.
    const Session& session = state_.sessions.at(holder.session);
    holders.emplace_back(session.serial, BlockHolder{.session = session.id,
                                                     .client_name = session.client_name,
                                                     .references = holder.count});
  }
  std::ranges::sort(holders, {}, [](const auto& entry) { return entry.first; });
  for (auto& [serial, holder] : holders) info.holders.push_back(std::move(holder));
  if (references.trace() != nullptr) info.history = references.trace()->History(block);
  return info;
}

std::string Inspector::TraceLine(BlockId block) const {
  if (state_.references.trace() == nullptr) {
    return "set KVPOOL_KV_TRACE=1 to have the block's history";
  }
  return state_.references.trace()->Line(block);
}

absl::StatusOr<SessionInfo> Inspector::FindSession(const SessionId& id, uint32_t max_blocks) const {
  const Session* session = state_.sessions.Find(id);
  if (session == nullptr) {
    return MakeError(absl::StatusCode::kNotFound, {.reason = Reason::kSessionUnknown},
                     absl::StrCat("nothing is known of session ", id.Short()));
  }
  SessionInfo info = Describe(*session);
  ListBlocks(*session, max_blocks, info);
  return info;
}

std::vector<SessionInfo> Inspector::Sessions() const {
  std::vector<SessionInfo> sessions;
  sessions.reserve(state_.sessions.size());
  for (const auto& [serial, slot] : state_.sessions.by_serial()) {
    sessions.push_back(Describe(state_.sessions.at(slot)));
  }
  return sessions;
}

SessionInfo Inspector::Describe(const Session& session) const {
  SessionInfo info;
  info.id = session.id;
  info.state = StateOf(session);
  info.tenant = state_.tenants.name(session.tenant);
  info.client_name = session.client_name;
  info.model_id = session.model_id;
  info.pid = session.pid;
  info.uid = session.uid;
  info.open_time = session.open_time;
  info.held_blocks = session.held_blocks;
  info.references = session.references;
  info.joined = session.joined;
  info.processes.assign(session.processes.begin(), session.processes.end());
  return info;
}

void Inspector::ListBlocks(const Session& session, uint32_t max_blocks, SessionInfo& info) const {
  const HolderTable& holders = state_.references.holders();
  std::vector<BlockId>& blocks = info.blocks;
  blocks.reserve(session.held_blocks);
  for (HolderSlot slot = session.held.head; slot != kNoHolder; slot = holders.at(slot).next) {
    blocks.push_back(holders.block(slot));
  }
  info.truncated = blocks.size() > max_blocks;
  const size_t count = std::min<size_t>(blocks.size(), max_blocks);
  std::ranges::nth_element(blocks, blocks.begin() + static_cast<std::ptrdiff_t>(count));
  blocks.resize(count);
  blocks.shrink_to_fit();
  std::ranges::sort(blocks);
}

}  // namespace kvpool
