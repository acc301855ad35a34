#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"

#include "client/side_tensor.h"
#include "core/device/mapped_region.h"
#include "core/ids.h"
#include "core/layout/pool_layout.h"

namespace kvpool {
class ImportedMemory;
}

namespace kvpool::client {

// One shard's memory of a pool, mapped into this process: where the bytes of a block are. On the
// host they are spans to read and write; on a GPU addresses for kernels and copies.
//
// Pure arithmetic on the layout. It does not know who holds a block: touch only those that this
// process's session (or the one that it joined) holds, write only those that are not published.
// Its bytes stay mapped until it is destroyed, even after the session's end, but they are then
// others'. Forked children do not inherit the memory: an access there ends the child, and a GPU's
// addresses mean nothing to it.
// Any thread may call anything but a move.
class Mapping {
 public:
  using Access = MappedRegion::Access;

  // A mapping of `region`, which holds `layout`. FAILED_PRECONDITION where a side of the layout
  // passes the region's end.
  static absl::StatusOr<Mapping> Create(std::shared_ptr<const PoolLayout> layout,
                                        MappedRegion region, Access access, uint32_t shard);

  // The same of memory on a GPU.
  static absl::StatusOr<Mapping> CreateOnGpu(std::shared_ptr<const PoolLayout> layout,
                                             std::shared_ptr<const ImportedMemory> memory,
                                             Access access, uint32_t shard);

  Mapping(Mapping&&) noexcept = default;
  Mapping& operator=(Mapping&&) noexcept = default;
  ~Mapping() = default;

  // The bytes of one side of one block: SideLayout::data_bytes of elements, then its scales.
  // Require memory on the host, a layer and a block of the pool, a V where V is asked for, and
  // kReadWrite where bytes are mutable; each is checked, and a breach ends the process, since the
  // bytes would be somebody else's.
  std::span<const std::byte> k(uint32_t layer, BlockId block) const;
  std::span<const std::byte> v(uint32_t layer, BlockId block) const;
  std::span<std::byte> mutable_k(uint32_t layer, BlockId block);
  std::span<std::byte> mutable_v(uint32_t layer, BlockId block);

  // The whole region: block b of a side starts at offset_bytes + b * stride_bytes. Requires memory
  // on the host.
  std::span<const std::byte> bytes() const;
  // Requires kReadWrite, too.
  std::span<std::byte> mutable_bytes();

  // Where block 0 of a side begins, in this process: block b is at b times
  // layout().layers[layer].k.stride_bytes (or .v's) from it. On a GPU it is of the device
  // device_ordinal(), never to be followed on the host. Require a layer of the pool, and a V where
  // V is asked for; a breach ends the process. What is mapped kReadOnly must not be written to: on
  // the host an access ends the process, and on a GPU nothing can stop it.
  void* k_ptr(uint32_t layer) const;
  void* v_ptr(uint32_t layer) const;

  // All blocks of a side as a tensor. Require what k_ptr and v_ptr do. Errors:
  // FAILED_PRECONDITION, blocks do not begin at whole elements, as block-major order on the host
  // may have it where layers' formats differ; INTERNAL, the layout's numbers do not agree.
  absl::StatusOr<SideTensor> k_tensor(uint32_t layer) const;
  absl::StatusOr<SideTensor> v_tensor(uint32_t layer) const;

  bool is_on_gpu() const { return gpu_ != nullptr; }
  // The GPU's number in this process, as CUDA and DLPack count; -1 on the host.
  int device_ordinal() const;

  const PoolLayout& layout() const { return *layout_; }
  bool has_v() const { return layout_->layers.front().v.has_value(); }
  Access access() const { return access_; }
  uint32_t shard() const { return shard_; }

 private:
  using GpuMemory = std::shared_ptr<const ImportedMemory>;

  Mapping(std::shared_ptr<const PoolLayout> layout, std::shared_ptr<MappedRegion> host,
          std::shared_ptr<const GpuMemory> gpu, Access access, uint32_t shard);

  void* PointerTo(const SideLayout& side) const;
  absl::StatusOr<SideTensor> TensorOf(const SideLayout& side) const;

  std::shared_ptr<const PoolLayout> layout_;
  // One of the two. Never shared; their deleters spare forked children.
  std::shared_ptr<MappedRegion> host_;
  std::shared_ptr<const GpuMemory> gpu_;
  Access access_;
  uint32_t shard_;
};

}  // namespace kvpool::client
