#include "client/cli/replay/simulation.h"

#include <chrono>

#include "client/cli/replay/block_name.h"
#include "core/check.h"

namespace kvpool::replay {
namespace {

constexpr absl::string_view kTenant = "replay";
constexpr SessionId kSession{.bytes = {1}};
constexpr Caller kCaller{.session = kSession, .tenant = kTenant};

LedgerOptions MakeOptions(EvictionPolicyName policy, uint32_t num_blocks) {
  LedgerOptions options{.num_blocks = num_blocks, .eviction_policy = policy};
  options.limits.max_blocks_per_call = num_blocks;
  return options;
}

}  // namespace

Simulation::Simulation(EvictionPolicyName policy, uint32_t capacity, uint32_t longest_request)
    : capacity_(capacity), ledger_(MakeOptions(policy, capacity + longest_request)) {
  const TimePoint begin{};
  const auto ttl = ledger_.OpenSession({.id = kSession,
                                        .tenant = kTenant,
                                        .model_id = "replay",
                                        .process = ProcessId{1},
                                        .ttl = std::chrono::minutes(1)},
                                       begin);
  // Attached, it lives through any pause of the trace.
  KVPOOL_CHECK(ttl.ok() && ledger_.Attach(kCaller, ProcessId{1}, begin).ok());
}

Simulation::Outcome Simulation::Run(std::span<const uint64_t> blocks, TimePoint now, bool is_done) {
  if (blocks.empty()) return {};
  keys_.blocks.clear();
  for (const BlockName& name : NameBlocks(blocks)) keys_.blocks.push_back(name.ToKey());
  const auto acquired = ledger_.Alloc({.caller = kCaller,
                                       .count = static_cast<uint32_t>(blocks.size()),
                                       .prefix = &keys_,
                                       .queue = WaitQueue::kAdmit},
                                      now);
  // One tenant's blocks need no fill, and there is room.
  KVPOOL_CHECK(acquired.ok() && acquired->pending == PendingId{});
  const std::span<const BlockRef> refs = acquired->answer.blocks;
  const uint32_t matched = acquired->answer.matched_blocks;
  if (matched < refs.size()) {
    const auto published = ledger_.Publish(
        {.caller = kCaller, .prefix = &keys_, .skip = matched, .blocks = refs.subspan(matched)},
        now);
    KVPOOL_CHECK(published.ok() && published->published == refs.size() - matched);
  }
  const auto released = ledger_.DecRef({.caller = kCaller, .blocks = refs, .done = is_done}, now);
  KVPOOL_CHECK(released.ok());
  Outcome outcome{.hit_blocks = matched};
  if (cached_count() > capacity_) {
    const auto evicted =
        ledger_.Evict({.caller = kCaller, .count = cached_count() - capacity_}, now);
    KVPOOL_CHECK(evicted.ok() && cached_count() == capacity_);
    outcome.evicted_blocks = evicted->blocks.size();
  }
  return outcome;
}

}  // namespace kvpool::replay
