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

bool IsNamedByAny(uint32_t block, const Seen& seen) {
  const auto is_it = [block](BlockId id) { return ToIndex(id) == block; };
  return std::ranges::any_of(seen.events, [&](const LedgerEvent& event) {
    if (const auto* fill = std::get_if<FillNeeded>(&event)) {
      return std::ranges::any_of(fill->zero, is_it) || std::ranges::any_of(fill->poison, is_it);
    }
    const auto* done = std::get_if<AllocDone>(&event);
    return done != nullptr && done->result.ok() &&
           std::ranges::any_of(done->result->blocks, is_it, &BlockRef::block);
  });
}

}  // namespace kvpool::test
