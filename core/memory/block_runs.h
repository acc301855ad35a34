#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/device/device.h"
#include "core/ids.h"
#include "core/layout/pool_layout.h"

namespace kvpool {

// Where whole blocks lie in a shard's region: which bytes a fill or a copy of some blocks touches,
// in as few extents as the layout allows. A block-major block is one run; a layer-major one is a
// run for each side of each layer. V that aliases K is not counted twice. A value; thread-safe.
class BlockRuns {
 public:
  explicit BlockRuns(const PoolLayout& layout);

  // Every byte of the blocks, which may come in any order. Runs that touch become one.
  std::vector<Extent> Extents(std::span<const BlockId> blocks) const;

  // From source i, which lies here, to destination i, which lies as `destination` says. Runs that
  // touch at both ends become one. Requires layouts of one fingerprint and lists of one length.
  std::vector<CopyExtent> CopyExtents(std::span<const BlockId> sources,
                                      const BlockRuns& destination,
                                      std::span<const BlockId> destinations) const;

 private:
  // Of block b: `size_bytes` at `offset_bytes + b * stride_bytes`.
  struct Run {
    uint64_t offset_bytes = 0;
    uint64_t stride_bytes = 0;
    uint64_t size_bytes = 0;

    uint64_t OffsetOf(BlockId block) const { return offset_bytes + ToIndex(block) * stride_bytes; }
  };

  void AddSide(const SideLayout& side, bool may_merge);

  std::vector<Run> runs_;
  uint32_t num_blocks_;
};

}  // namespace kvpool
