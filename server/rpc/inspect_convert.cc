#include "server/rpc/inspect_convert.h"

#include <algorithm>
#include <span>

#include "proto/convert/layout_convert.h"

namespace kvpool::server {
namespace {

constexpr int kMaxHolders = 1'024;  // In one message.

constexpr char kOtherTenants[] = "(others)";

v1::BlockStatus::State ToMessage(BlockState state) {
  switch (state) {
    case BlockState::kFree:
      return v1::BlockStatus::STATE_FREE;
    case BlockState::kHeld:
      return v1::BlockStatus::STATE_HELD;
    case BlockState::kCached:
      return v1::BlockStatus::STATE_CACHED;
    case BlockState::kQuarantined:
      return v1::BlockStatus::STATE_QUARANTINED;
  }
  return v1::BlockStatus::STATE_UNSPECIFIED;
}

v1::SessionStatus::State ToMessage(SessionState state) {
  switch (state) {
    case SessionState::kUnattached:
      return v1::SessionStatus::STATE_UNATTACHED;
    case SessionState::kAttached:
      return v1::SessionStatus::STATE_ATTACHED;
    case SessionState::kClosing:
      return v1::SessionStatus::STATE_CLOSING;
    case SessionState::kClaiming:
      return v1::SessionStatus::STATE_CLAIMING;
  }
  return v1::SessionStatus::STATE_UNSPECIFIED;
}

// The part of a block's history that the viewer may see, of a block that is its own.
std::span<const TraceEvent> VisibleHistory(const BlockInfo& block, const Viewer& viewer) {
  const std::span<const TraceEvent> history = block.history;
  if (!viewer.tenant.has_value()) return history;
  for (size_t i = history.size(); i > 0; --i) {
    if (history[i - 1].operation == TraceOperation::kAlloc) return history.subspan(i - 1);
  }
  return history;  // The allocation is older than what is kept.
}

}  // namespace

Viewer ViewerOf(const Peer& peer) {
  const bool sees_all = peer.role == v1::ROLE_INSPECTOR || peer.role == v1::ROLE_OPERATOR;
  return {.tenant = sees_all ? std::nullopt : std::make_optional(peer.tenant)};
}

v1::BlockStatus ToBriefMessage(const BlockInfo& block, const Viewer& viewer) {
  v1::BlockStatus message;
  message.set_block_id(ToIndex(block.block));
  message.set_generation(static_cast<uint64_t>(block.generation));
  message.set_state(ToMessage(block.state));
  message.set_ref_count(block.ref_count);
  message.set_published(block.published);
  message.set_sealed(block.sealed);
  message.set_claimed(block.claimed);
  if (viewer.Sees(block.tenant)) message.set_tenant(block.tenant);
  return message;
}

v1::BlockStatus ToMessage(const BlockInfo& block, const Viewer& viewer, const WallClock& clock) {
  v1::BlockStatus message = ToBriefMessage(block, viewer);
  if (!viewer.Sees(block.tenant)) return message;
  for (const BlockHolder& holder : block.holders) {
    if (message.holders_size() == kMaxHolders) break;
    v1::BlockStatus::Holder& added = *message.add_holders();
    added.set_session_id(holder.session.Short());
    added.set_client_name(holder.client_name);
    added.set_references(holder.references);
  }
  for (const TraceEvent& event : VisibleHistory(block, viewer)) {
    v1::BlockTraceEvent& added = *message.add_history();
    added.set_operation(std::string(TraceOperationName(event.operation)));
    added.set_ref_count_after(event.ref_count_after);
    added.set_caller(event.caller);
    clock.Convert(event.time, *added.mutable_time());
  }
  return message;
}

v1::SessionStatus ToMessage(const SessionInfo& session, absl::string_view pool, ReclaimProof proof,
                            const WallClock& clock) {
  v1::SessionStatus message;
  message.set_session_id(session.id.Short());
  message.set_pool(std::string(pool));
  message.set_client_name(session.client_name);
  message.set_tenant(session.tenant);
  message.set_pid(session.pid);
  message.set_uid(session.uid);
  clock.Convert(session.open_time, *message.mutable_open_time());
  message.set_held_blocks(session.held_blocks);
  message.set_references(session.references);
  message.mutable_block_ids()->Reserve(static_cast<int>(session.blocks.size()));
  for (const BlockId block : session.blocks) message.add_block_ids(ToIndex(block));
  message.set_truncated(session.truncated);
  message.set_model_id(session.model_id);
  message.set_state(ToMessage(session.state));
  if (session.joined != SessionId{}) message.set_joined_session_id(session.joined.Short());
  message.set_reclaim_proof(ToMessage(proof));
  return message;
}

v1::PoolStatus ToMessage(const Pool& pool, const Viewer& viewer) {
  v1::PoolStatus message;
  *message.mutable_layout() = LayoutToProto(pool.layout());
  RedactTenants(viewer, *message.mutable_layout());
  const LedgerCounts counts = pool.counts();
  message.set_free_blocks(counts.free_blocks);
  message.set_cached_blocks(counts.cached_blocks);
  message.set_held_blocks(counts.held_blocks);
  message.set_quarantined_blocks(counts.quarantined_blocks);
  message.set_published_blocks(counts.published_blocks);
  message.set_sessions(counts.sessions);
  message.set_waiting_calls(counts.waiting_calls);
  for (uint32_t shard = 0; shard < pool.layout().num_shards(); ++shard) {
    *message.add_devices() = ToMessage(pool.memory().device(shard).info());
  }
  const absl::Status health = pool.memory().health();
  if (!health.ok()) message.set_failure(std::string(health.message()));
  return message;
}

v1::ReclaimProof ToMessage(ReclaimProof proof) {
  return proof == ReclaimProof::kPidfd ? v1::RECLAIM_PROOF_PIDFD : v1::RECLAIM_PROOF_DELAY;
}

v1::SideChecksum ToMessage(const SideChecksum& checksum) {
  v1::SideChecksum message;
  message.set_sum(checksum.sum);
  message.set_sum_of_squares(checksum.sum_of_squares);
  message.set_sum_of_absolutes(checksum.sum_of_absolutes);
  message.set_nan_count(checksum.nan_count);
  message.set_crc32c(checksum.crc32c);
  message.set_has_sums(checksum.has_sums);
  return message;
}

v1::Device ToMessage(const DeviceInfo& device) {
  v1::Device message;
  message.set_kind(device.kind == DeviceKind::kCuda ? v1::DEVICE_KIND_CUDA : v1::DEVICE_KIND_HOST);
  message.set_uuid(device.uuid);
  message.set_name(device.name);
  return message;
}

void RedactTenants(const Viewer& viewer, v1::PoolLayout& layout) {
  if (!viewer.tenant.has_value() || layout.spec().tenants().empty()) return;
  auto& tenants = *layout.mutable_spec()->mutable_tenants();
  const bool is_listed = std::ranges::find(tenants, *viewer.tenant) != tenants.end();
  tenants.Clear();
  *tenants.Add() = is_listed ? *viewer.tenant : kOtherTenants;
}

}  // namespace kvpool::server
