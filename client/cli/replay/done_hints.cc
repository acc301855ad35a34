#include "client/cli/replay/done_hints.h"

#include <random>
#include <span>

#include "absl/container/flat_hash_set.h"

#include "client/cli/replay/block_name.h"

namespace kvpool::replay {

std::vector<bool> ChooseDone(const Trace& trace, uint32_t percent) {
  std::vector<bool> is_done(trace.requests().size(), false);
  if (percent == 0) return is_done;
  // Its numbers are the standard's: the same everywhere.
  std::mt19937 random;  // NOLINT(cert-msc51-cpp,bugprone-random-generator-seed): see above.
  absl::flat_hash_set<uint64_t> used_later;
  for (size_t i = is_done.size(); i-- > 0;) {
    const std::vector<BlockName> names = NameBlocks(trace.blocks(trace.requests()[i]));
    if (names.empty()) continue;
    is_done[i] = !used_later.contains(names.back().chain) && random() % 100 < percent;
    for (const BlockName& name : names) used_later.insert(name.chain);
  }
  return is_done;
}

}  // namespace kvpool::replay
