#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"

#include "core/device/mapped_region.h"
#include "core/ids.h"
#include "core/layout/pool_layout.h"

namespace kvpool::client {

// One shard's memory of a pool, mapped into this process: where the bytes of a block are.
//
// Pure arithmetic on the layout. It does not know who holds a block: touch only those that this
// process's session (or the one that it joined) holds, write only those that are not published.
// Its bytes stay mapped until it is destroyed, even after the session's end, but they are then
// others'. Forked children do not inherit the memory: an access there ends the child.
// Any thread may call anything but a move.
class Mapping {
 public:
  using Access = MappedRegion::Access;

  // A mapping of `region`, which holds `layout`. FAILED_PRECONDITION where a side of the layout
  // passes the region's end.
  static absl::StatusOr<Mapping> Create(std::shared_ptr<const PoolLayout> layout,
                                        MappedRegion region, Access access, uint32_t shard);

  Mapping(Mapping&&) noexcept = default;
  Mapping& operator=(Mapping&&) noexcept = default;
  ~Mapping() = default;

  // The bytes of one side of one block: SideLayout::data_bytes of elements, then its scales.
  // Require a layer and a block of the pool, a V where V is asked for, and kReadWrite where
  // bytes are mutable; each is checked, and a breach ends the process, since the bytes would be
  // somebody else's.
  std::span<const std::byte> k(uint32_t layer, BlockId block) const;
  std::span<const std::byte> v(uint32_t layer, BlockId block) const;
  std::span<std::byte> mutable_k(uint32_t layer, BlockId block);
  std::span<std::byte> mutable_v(uint32_t layer, BlockId block);

  // The whole region: block b of a side starts at offset_bytes + b * stride_bytes.
  std::span<const std::byte> bytes() const;
  // Requires kReadWrite.
  std::span<std::byte> mutable_bytes();

  const PoolLayout& layout() const { return *layout_; }
  bool has_v() const { return layout_->layers.front().v.has_value(); }
  Access access() const { return access_; }
  uint32_t shard() const { return shard_; }

 private:
  Mapping(std::shared_ptr<const PoolLayout> layout, std::shared_ptr<MappedRegion> region,
          Access access, uint32_t shard);

  std::shared_ptr<const PoolLayout> layout_;
  std::shared_ptr<MappedRegion> region_;  // Never shared; its deleter spares forked children.
  Access access_;
  uint32_t shard_;
};

}  // namespace kvpool::client
