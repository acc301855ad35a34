#include "core/ledger/block_trace.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kvpool {

void BlockTrace::Record(BlockId block, TraceOperation operation, uint32_t ref_count_after,
                        const Cause& cause) {
  const size_t index = ToIndex(block);
  if (index >= rings_.size()) rings_.resize(index + 1);
  if (rings_[index] == nullptr) rings_[index] = std::make_unique<Ring>();
  Ring& ring = *rings_[index];
  ring.events[ring.count % kEvents] = {operation, ref_count_after, cause};
  ++ring.count;
}

std::vector<TraceEvent> BlockTrace::History(BlockId block) const {
  std::vector<TraceEvent> history;
  const size_t index = ToIndex(block);
  if (index >= rings_.size() || rings_[index] == nullptr) return history;
  const Ring& ring = *rings_[index];
  for (uint64_t i = ring.count - std::min<uint64_t>(ring.count, kEvents); i < ring.count; ++i) {
    const Event& event = ring.events[i % kEvents];
    history.push_back({.operation = event.operation,
                       .ref_count_after = event.ref_count_after,
                       .caller = absl::StrCat(event.cause.name, ":", event.cause.session.Short()),
                       .time = event.cause.time});
  }
  return history;
}

std::string BlockTrace::Line(BlockId block) const {
  return absl::StrJoin(History(block), " | ", [](std::string* out, const TraceEvent& event) {
    absl::StrAppend(out, TraceOperationName(event.operation), "->", event.ref_count_after, " @",
                    event.caller);
  });
}

}  // namespace kvpool
