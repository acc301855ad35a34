#include "core/layout/placement.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/layout/overflow.h"
#include "core/layout/spec_check.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

// In layer-major order each side starts at a multiple of this, as kernels load whole lines.
constexpr uint64_t kSideAlignment = 256;
// The driver hands out device memory in pieces of this.
constexpr uint64_t kCudaAlignment = uint64_t{2} << 20;
// The widest load of a CUDA thread, which needs its own alignment.
constexpr uint64_t kCudaStrideAlignment = 16;

// The field that decides how long a side of `layer` is.
std::string DimField(const PoolSpec& spec, uint32_t layer, bool is_v) {
  if (spec.raw_token_bytes != 0) return "raw_token_bytes";
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const LayerOverride& own = spec.layers[i];
    if (layer < own.first || layer > own.last) continue;
    if (is_v && own.v_head_dim != 0) return absl::StrCat("layers[", i, "].v_head_dim");
    if (is_v && spec.v_head_dim != 0) break;
    if (own.head_dim != 0) return absl::StrCat("layers[", i, "].head_dim");
  }
  return is_v && spec.v_head_dim != 0 ? "v_head_dim" : "head_dim";
}

// Lengths that are multiples of 16 make every stride one and, as sides follow on sides or start
// at multiples of 256, every offset too.
absl::Status CheckCudaSide(const PoolSpec& spec, uint32_t layer, bool is_v,
                           const SideLayout& side) {
  if (side.block_bytes % kCudaStrideAlignment == 0) return absl::OkStatus();
  const uint32_t dim = spec.raw_token_bytes != 0 ? spec.raw_token_bytes : side.head_dim;
  return WrongField(DimField(spec, layer, is_v), absl::StrCat(dim),
                    absl::StrCat("a block's ", is_v ? "V" : "K", " in layer ", layer, " is ",
                                 side.block_bytes, " bytes, and on CUDA strides and offsets are ",
                                 "multiples of ", kCudaStrideAlignment));
}

}  // namespace

Placement::Placement(const PoolSpec& spec, std::vector<LayerLayout> layers)
    : is_cuda_(IsCuda(spec)),
      v_mode_(spec.v_mode),
      order_(spec.memory_order),
      layers_(std::move(layers)) {
  for (const LayerLayout& layer : layers_) {
    side_bytes_.push_back(layer.k.block_bytes);
    if (v_mode_ == VMode::kSeparate) side_bytes_.push_back(layer.v->block_bytes);
  }
}

absl::StatusOr<Placement> Placement::Create(const PoolSpec& spec, std::vector<LayerLayout> layers) {
  Placement placement(spec, std::move(layers));
  for (const uint64_t bytes : placement.side_bytes_) {
    const std::optional<uint64_t> sum = CheckedSum(placement.block_bytes_, bytes);
    if (!sum.has_value()) {
      return WrongField("num_layers", absl::StrCat(spec.num_layers),
                        "the bytes of a block in all layers overflow 64 bits");
    }
    placement.block_bytes_ = *sum;
  }
  if (!placement.is_cuda_) return placement;
  for (uint32_t i = 0; i < placement.layers_.size(); ++i) {
    const LayerLayout& layer = placement.layers_[i];
    KVPOOL_RETURN_IF_ERROR(CheckCudaSide(spec, i, /*is_v=*/false, layer.k));
    if (spec.v_mode != VMode::kSeparate) continue;
    KVPOOL_RETURN_IF_ERROR(CheckCudaSide(spec, i, /*is_v=*/true, *layer.v));
  }
  return placement;
}

std::optional<uint64_t> Placement::ShardBytes(uint64_t num_blocks) const {
  std::optional<uint64_t> end;
  if (order_ == MemoryOrder::kBlockMajor) {
    end = CheckedProduct({num_blocks, block_bytes_});
  } else {
    end = 0;
    for (const uint64_t bytes : side_bytes_) {
      const std::optional<uint64_t> start = CheckedAlignUp(*end, kSideAlignment);
      const std::optional<uint64_t> run = CheckedProduct({num_blocks, bytes});
      if (!start.has_value() || !run.has_value()) return std::nullopt;
      end = CheckedSum(*start, *run);
      if (!end.has_value()) return std::nullopt;
    }
  }
  return end.has_value() && is_cuda_ ? CheckedAlignUp(*end, kCudaAlignment) : end;
}

uint64_t Placement::BlocksIn(uint64_t budget_bytes) const {
  // Padding makes the bytes no multiple of the blocks, but they only grow with them: halve the
  // range [fits, too_many).
  uint64_t fits = 0;
  uint64_t too_many = uint64_t{kMaxBlocks} + 2;
  while (too_many - fits > 1) {
    const uint64_t middle = fits + (too_many - fits) / 2;
    const std::optional<uint64_t> bytes = ShardBytes(middle);
    (bytes.has_value() && *bytes <= budget_bytes ? fits : too_many) = middle;
  }
  return fits;
}

std::vector<LayerLayout> Placement::Place(uint64_t num_blocks) const {
  KVPOOL_CHECK(ShardBytes(num_blocks).has_value());
  std::vector<LayerLayout> placed = layers_;
  uint64_t end = 0;
  const auto place_side = [&](SideLayout& side) {
    if (order_ == MemoryOrder::kBlockMajor) {
      side.offset_bytes = end;
      side.stride_bytes = block_bytes_;
      end += side.block_bytes;
    } else {
      side.offset_bytes = *CheckedAlignUp(end, kSideAlignment);
      side.stride_bytes = side.block_bytes;
      end = side.offset_bytes + num_blocks * side.block_bytes;
    }
  };
  for (LayerLayout& layer : placed) {
    place_side(layer.k);
    if (v_mode_ == VMode::kSeparate) place_side(*layer.v);
    if (v_mode_ == VMode::kAliasesK) layer.v = layer.k;
  }
  return placed;
}

}  // namespace kvpool
