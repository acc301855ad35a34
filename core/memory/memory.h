#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/device/device.h"
#include "core/ids.h"
#include "core/layout/pool_layout.h"
#include "core/memory/block_runs.h"

namespace kvpool {

enum class Side : uint8_t { kK, kV };

// Some bytes of one side of one layer of one block in one shard. V that aliases K is K's bytes.
struct PieceRange {
  uint32_t shard = 0;
  BlockId block{};
  uint32_t layer = 0;
  Side side{};
  uint64_t offset_bytes = 0;  // From the start of the block's side.
  uint64_t size_bytes = 0;
};

// A pool's bytes: a region on a device for each shard, all in one layout. Moves bytes and decides
// nothing: who may touch which block, and when, is its caller's business.
//
// Operations are asynchronous, as Device's: spans of bytes and results must stay valid until they
// end; lists of blocks and ranges need not. One that takes blocks ends when every shard's part has,
// with the first error that came. Blocks must be in range. Thread-safe.
class Memory {
 public:
  // Allocates a region on each of `devices`, which must outlive it: one for each of
  // `layout.spec.devices`, in order. Frees what it had where one fails.
  static absl::StatusOr<std::unique_ptr<Memory>> Create(const PoolLayout& layout,
                                                        std::span<Device* const> devices);

  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Fills every byte of K and V of every layer of the blocks, in every shard.
  void Fill(std::span<const BlockId> blocks, uint8_t value, Completion done);

  // Copies whole blocks, source i to destination i, shard to shard, between pools of the same
  // fingerprint and number of shards, on whatever devices. `destination` may be this. Each shard is
  // copied by the device whose memory the host cannot touch, by the source's where that is both.
  void Copy(std::span<const BlockId> sources, Memory& destination,
            std::span<const BlockId> destinations, Completion done);

  // INVALID_ARGUMENT, naming it, where `range` names no shard, layer, side or block of the pool
  // (also V where there is none); OUT_OF_RANGE where it passes the end of its side.
  absl::Status Check(const PieceRange& range) const;

  // Reads or writes one range that Check accepts; the bytes are exactly as long.
  void Read(const PieceRange& range, std::span<std::byte> bytes, Completion done);
  void Write(const PieceRange& range, std::span<const std::byte> bytes, Completion done);

  // Adds up each of some ranges that Check accepts, of one shard and of elements of `dtype`, where
  // the bytes are. Errors as Device::Sum's: UNIMPLEMENTED, they are to be read. Requires some.
  void Sum(std::span<const PieceRange> ranges, Dtype dtype, std::span<ExtentSums> results,
           Completion done);

  // The device of a shard. Requires shard < layout().num_shards().
  Device& device(uint32_t shard) const { return *devices_[shard]; }

  // OK, or Device::health of the first shard's whose device has failed.
  absl::Status health() const;

  const PoolLayout& layout() const { return layout_; }
  std::span<const std::unique_ptr<Region>> regions() const { return regions_; }

 private:
  Memory(const PoolLayout& layout, std::span<Device* const> devices);

  const PoolLayout layout_;
  const std::vector<Device*> devices_;
  const BlockRuns runs_;
  std::vector<std::unique_ptr<Region>> regions_;  // One a shard. Fixed once created.
};

}  // namespace kvpool
