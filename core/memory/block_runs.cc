#include "core/memory/block_runs.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace kvpool {

BlockRuns::BlockRuns(const PoolLayout& layout) : num_blocks_(layout.num_blocks) {
  // Sides of a layer-major pool of one block may happen to touch, but not in another pool of the
  // same fingerprint, and copies go run by run.
  const bool may_merge = layout.spec.memory_order == MemoryOrder::kBlockMajor;
  for (const LayerLayout& layer : layout.layers) {
    AddSide(layer.k, may_merge);
    if (layer.v.has_value() && layout.spec.v_mode != VMode::kAliasesK) {
      AddSide(*layer.v, may_merge);
    }
  }
}

void BlockRuns::AddSide(const SideLayout& side, bool may_merge) {
  if (may_merge && !runs_.empty()) {
    Run& last = runs_.back();
    if (last.stride_bytes == side.stride_bytes &&
        last.offset_bytes + last.size_bytes == side.offset_bytes) {
      last.size_bytes += side.block_bytes;
      return;
    }
  }
  runs_.push_back({.offset_bytes = side.offset_bytes,
                   .stride_bytes = side.stride_bytes,
                   .size_bytes = side.block_bytes});
}

std::vector<Extent> BlockRuns::Extents(std::span<const BlockId> blocks) const {
  // Sorted, since blocks that were freed together are handed out again in descending order.
  std::vector<BlockId> sorted(blocks.begin(), blocks.end());
  std::ranges::sort(sorted);
  KVPOOL_CHECK(sorted.empty() || ToIndex(sorted.back()) < num_blocks_);
  std::vector<Extent> extents;
  for (const Run& run : runs_) {
    for (const BlockId block : sorted) {
      const uint64_t offset = run.OffsetOf(block);
      if (!extents.empty() && extents.back().offset_bytes + extents.back().size_bytes == offset) {
        extents.back().size_bytes += run.size_bytes;
      } else {
        extents.push_back({.offset_bytes = offset, .size_bytes = run.size_bytes});
      }
    }
  }
  return extents;
}

std::vector<CopyExtent> BlockRuns::CopyExtents(std::span<const BlockId> sources,
                                               const BlockRuns& destination,
                                               std::span<const BlockId> destinations) const {
  KVPOOL_CHECK(sources.size() == destinations.size());
  KVPOOL_CHECK(runs_.size() == destination.runs_.size());
  std::vector<std::pair<BlockId, BlockId>> pairs;
  pairs.reserve(sources.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    KVPOOL_CHECK(ToIndex(sources[i]) < num_blocks_);
    KVPOOL_CHECK(ToIndex(destinations[i]) < destination.num_blocks_);
    pairs.emplace_back(sources[i], destinations[i]);
  }
  std::ranges::sort(pairs);
  std::vector<CopyExtent> extents;
  for (size_t i = 0; i < runs_.size(); ++i) {
    KVPOOL_CHECK(runs_[i].size_bytes == destination.runs_[i].size_bytes);
    for (const auto& [from, to] : pairs) {
      const CopyExtent next{.source_bytes = runs_[i].OffsetOf(from),
                            .destination_bytes = destination.runs_[i].OffsetOf(to),
                            .size_bytes = runs_[i].size_bytes};
      CopyExtent* last = extents.empty() ? nullptr : &extents.back();
      if (last != nullptr && last->source_bytes + last->size_bytes == next.source_bytes &&
          last->destination_bytes + last->size_bytes == next.destination_bytes) {
        last->size_bytes += next.size_bytes;
      } else {
        extents.push_back(next);
      }
    }
  }
  return extents;
}

}  // namespace kvpool
