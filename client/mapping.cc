#include "client/mapping.h"

#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"

#include "client/describe_side.h"
#include "client/fork_guard.h"
#include "core/check.h"
#include "core/device/gpu_importer.h"
#include "core/status_macros.h"

namespace kvpool::client {
namespace {

// Whether every block of `side` lies in `size_bytes`, without overflow on the way.
bool Fits(const SideLayout& side, uint32_t num_blocks, uint64_t size_bytes) {
  if (side.offset_bytes > size_bytes || side.block_bytes > size_bytes - side.offset_bytes) {
    return false;
  }
  const uint64_t last_bytes = size_bytes - side.offset_bytes - side.block_bytes;
  return num_blocks == 1 || side.stride_bytes <= last_bytes / (num_blocks - 1);
}

absl::Status CheckFits(const PoolLayout& layout, uint64_t size_bytes) {
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    const LayerLayout& layer = layout.layers[i];
    if (!Fits(layer.k, layout.num_blocks, size_bytes) ||
        (layer.v.has_value() && !Fits(*layer.v, layout.num_blocks, size_bytes))) {
      return absl::FailedPreconditionError(
          absl::StrCat("layer ", i, " passes the end of a region of ", size_bytes, " bytes"));
    }
  }
  return absl::OkStatus();
}

// Where `block` of a side begins. Ends the process unless the side has it.
uint64_t BlockOffset(const PoolLayout& layout, const SideLayout& side, BlockId block) {
  KVPOOL_CHECK(ToIndex(block) < layout.num_blocks);
  return side.offset_bytes + ToIndex(block) * side.stride_bytes;
}

const SideLayout& KSide(const PoolLayout& layout, uint32_t layer) {
  KVPOOL_CHECK(layer < layout.layers.size());
  return layout.layers[layer].k;
}

const SideLayout& VSide(const PoolLayout& layout, uint32_t layer) {
  KVPOOL_CHECK(layer < layout.layers.size());
  const std::optional<SideLayout>& v = layout.layers[layer].v;
  KVPOOL_CHECK(v.has_value());
  return *v;
}

}  // namespace

absl::StatusOr<Mapping> Mapping::Create(std::shared_ptr<const PoolLayout> layout,
                                        MappedRegion region, Access access, uint32_t shard) {
  KVPOOL_CHECK(layout != nullptr && layout->num_blocks > 0 && !layout->layers.empty());
  KVPOOL_RETURN_IF_ERROR(CheckFits(*layout, region.bytes().size()));
  return Mapping(std::move(layout), MakeForkSafe<MappedRegion>(std::move(region)), nullptr, access,
                 shard);
}

absl::StatusOr<Mapping> Mapping::CreateOnGpu(std::shared_ptr<const PoolLayout> layout,
                                             std::shared_ptr<const ImportedMemory> memory,
                                             Access access, uint32_t shard) {
  KVPOOL_CHECK(layout != nullptr && layout->num_blocks > 0 && !layout->layers.empty());
  KVPOOL_CHECK(memory != nullptr);
  KVPOOL_RETURN_IF_ERROR(CheckFits(*layout, memory->size_bytes()));
  return Mapping(std::move(layout), nullptr, MakeForkSafe<const GpuMemory>(std::move(memory)),
                 access, shard);
}

Mapping::Mapping(std::shared_ptr<const PoolLayout> layout, std::shared_ptr<MappedRegion> host,
                 std::shared_ptr<const GpuMemory> gpu, Access access, uint32_t shard)
    : layout_(std::move(layout)),
      host_(std::move(host)),
      gpu_(std::move(gpu)),
      access_(access),
      shard_(shard) {}

std::span<const std::byte> Mapping::k(uint32_t layer, BlockId block) const {
  const SideLayout& side = KSide(*layout_, layer);
  return bytes().subspan(BlockOffset(*layout_, side, block), side.block_bytes);
}

std::span<const std::byte> Mapping::v(uint32_t layer, BlockId block) const {
  const SideLayout& side = VSide(*layout_, layer);
  return bytes().subspan(BlockOffset(*layout_, side, block), side.block_bytes);
}

std::span<std::byte> Mapping::mutable_k(uint32_t layer, BlockId block) {
  const SideLayout& side = KSide(*layout_, layer);
  return mutable_bytes().subspan(BlockOffset(*layout_, side, block), side.block_bytes);
}

std::span<std::byte> Mapping::mutable_v(uint32_t layer, BlockId block) {
  const SideLayout& side = VSide(*layout_, layer);
  return mutable_bytes().subspan(BlockOffset(*layout_, side, block), side.block_bytes);
}

std::span<const std::byte> Mapping::bytes() const {
  KVPOOL_CHECK(!is_on_gpu());
  return host_->bytes();
}

std::span<std::byte> Mapping::mutable_bytes() {
  KVPOOL_CHECK(!is_on_gpu());
  KVPOOL_CHECK(access_ == Access::kReadWrite);
  return host_->mutable_bytes();
}

void* Mapping::k_ptr(uint32_t layer) const { return PointerTo(KSide(*layout_, layer)); }

void* Mapping::v_ptr(uint32_t layer) const { return PointerTo(VSide(*layout_, layer)); }

absl::StatusOr<SideTensor> Mapping::k_tensor(uint32_t layer) const {
  return TensorOf(KSide(*layout_, layer));
}

absl::StatusOr<SideTensor> Mapping::v_tensor(uint32_t layer) const {
  return TensorOf(VSide(*layout_, layer));
}

int Mapping::device_ordinal() const { return is_on_gpu() ? (*gpu_)->ordinal() : -1; }

void* Mapping::PointerTo(const SideLayout& side) const {
  const uint64_t base =
      is_on_gpu() ? (*gpu_)->base() : std::bit_cast<uintptr_t>(host_->bytes().data());
  return std::bit_cast<void*>(base + side.offset_bytes);
}

absl::StatusOr<SideTensor> Mapping::TensorOf(const SideLayout& side) const {
  KVPOOL_ASSIGN_OR_RETURN(SideTensor tensor, DescribeSide(*layout_, side));
  tensor.data = PointerTo(side);
  if (is_on_gpu()) {
    tensor.device_type = SideTensor::kCuda;
    tensor.device_id = device_ordinal();
  }
  return tensor;
}

}  // namespace kvpool::client
