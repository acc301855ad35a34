#include "tests/model/ledger/seen.h"

#include <algorithm>

namespace kvpool::test {

SeenGrant FindGrant(PendingId id, const Seen& seen) {
  SeenGrant grant;
  for (const LedgerEvent& event : seen.events) {
    if (const auto* fill = std::get_if<FillNeeded>(&event); fill != nullptr && fill->id == id) {
      grant.fill = fill;
    }
    if (const auto* done = std::get_if<AllocDone>(&event);
        done != nullptr && done->id == id && done->result.ok()) {
      grant.answer = &*done->result;
    }
  }
  return grant;
}

bool IsPinGranted(PendingId id, const Seen& seen) {
  return std::ranges::any_of(seen.events, [&](const LedgerEvent& event) {
    const auto* done = std::get_if<PinDone>(&event);
    return done != nullptr && done->id == id && done->status.ok();
  });
}

bool IsForgotten(const SessionId& id, const Seen& seen) {
  return std::ranges::any_of(seen.events, [&](const LedgerEvent& event) {
    const auto* forgotten = std::get_if<SessionForgotten>(&event);
    return forgotten != nullptr && forgotten->id == id;
  });
}

bool IsNamedByAny(uint32_t block, const Seen& seen) {
  const BlockRef ref{.block = BlockId{block}, .generation = seen.blocks[block].generation};
  return std::ranges::any_of(seen.events, [&](const LedgerEvent& event) {
    if (const auto* fill = std::get_if<FillNeeded>(&event)) {
      return std::ranges::count(fill->zero, ref.block) > 0 ||
             std::ranges::count(fill->poison, ref.block) > 0;
    }
    const auto* done = std::get_if<AllocDone>(&event);
    return done != nullptr && done->result.ok() &&
           std::ranges::count(done->result->blocks, ref) > 0;
  });
}

uint32_t SeenReferences(const BlockInfo& info, const SessionId& session) {
  uint32_t count = 0;
  for (const BlockHolder& holder : info.holders) {
    if (holder.session == session) count += holder.references;
  }
  return count;
}

}  // namespace kvpool::test
