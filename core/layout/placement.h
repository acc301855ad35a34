#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

#include "core/layout/pool_layout.h"

namespace kvpool {

// Where the sides of a pool's layers lie in a shard, and how many blocks fit in how many bytes.
// A V that aliases K takes no bytes. A value; immutable.
class Placement {
 public:
  // The parts of `layers`, sides as ResolveLayers returns them, laid out as `spec`, checked, says.
  // INVALID_ARGUMENT where the bytes of a block overflow 64 bits or, on CUDA, a stride or an
  // offset is no multiple of 16 bytes; names the field.
  static absl::StatusOr<Placement> Create(const PoolSpec& spec, std::vector<LayerLayout> layers);

  // Bytes of a shard of that many blocks; nothing where they overflow 64 bits.
  std::optional<uint64_t> ShardBytes(uint64_t num_blocks) const;

  // The greatest number of blocks, up to `kMaxBlocks + 1`, whose shard fits in `budget_bytes`.
  uint64_t BlocksIn(uint64_t budget_bytes) const;

  // The layers with the offsets and strides of a pool of that many blocks. Requires that
  // ShardBytes(num_blocks) does not overflow.
  std::vector<LayerLayout> Place(uint64_t num_blocks) const;

  // Bytes of one block in one shard, every layer and side.
  uint64_t block_bytes() const { return block_bytes_; }

 private:
  Placement(const PoolSpec& spec, std::vector<LayerLayout> layers);

  bool is_cuda_;
  VMode v_mode_;
  MemoryOrder order_;
  std::vector<LayerLayout> layers_;
  std::vector<uint64_t> side_bytes_;  // Of one block: K of layer 0, its V, K of layer 1, ...
  uint64_t block_bytes_ = 0;
};

}  // namespace kvpool
