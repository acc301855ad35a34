#include "client/mapping.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "client/fork_guard.h"
#include "core/check.h"
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
  return Mapping(std::move(layout), MakeForkSafe<MappedRegion>(std::move(region)), access, shard);
}

Mapping::Mapping(std::shared_ptr<const PoolLayout> layout, std::shared_ptr<MappedRegion> region,
                 Access access, uint32_t shard)
    : layout_(std::move(layout)), region_(std::move(region)), access_(access), shard_(shard) {}

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

std::span<const std::byte> Mapping::bytes() const { return region_->bytes(); }

std::span<std::byte> Mapping::mutable_bytes() {
  KVPOOL_CHECK(access_ == Access::kReadWrite);
  return region_->mutable_bytes();
}

}  // namespace kvpool::client
