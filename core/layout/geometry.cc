#include "core/layout/geometry.h"

#include <string>

#include "absl/strings/str_cat.h"

#include "core/layout/overflow.h"
#include "core/layout/spec_check.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

// A number of the spec, and the field that it was written in.
struct Setting {
  uint32_t value = 0;
  std::string field;
};

// The override's own, else the pool's. `override_index` is the place of `layer` in the spec.
Setting Choose(const LayerOverride* layer, size_t override_index, uint32_t LayerOverride::*own,
               uint32_t pools, absl::string_view name) {
  if (layer != nullptr && layer->*own != 0) {
    return {.value = layer->*own, .field = absl::StrCat("layers[", override_index, "].", name)};
  }
  return {.value = pools, .field = std::string(name)};
}

bool IsHighPrecision(const PoolSpec& spec, uint32_t layer) {
  return layer < spec.high_precision_layers ||
         spec.num_layers - layer <= spec.high_precision_layers;
}

DtypePair ChooseDtype(const PoolSpec& spec, const LayerOverride* own, uint32_t layer) {
  // Names are checked already, so these parse.
  if (own != nullptr && !own->dtype.empty()) return *ParseDtype(own->dtype);
  if (IsHighPrecision(spec, layer)) return {.k = Dtype::kBf16, .v = Dtype::kBf16};
  return *ParseDtype(spec.dtype);
}

absl::StatusOr<SideLayout> ResolveSide(const PoolSpec& spec, uint32_t layer, Dtype dtype,
                                       const Setting& heads, const Setting& dim) {
  for (const Setting* setting : {&heads, &dim}) {
    if (setting->value != 0) continue;
    return WrongField(setting->field, "0",
                      absl::StrCat("layer ", layer, " has no number of its own"));
  }
  const std::optional<uint64_t> elements =
      CheckedProduct({*spec.block_size, heads.value, dim.value});
  if (!elements.has_value()) {
    return WrongField(
        dim.field, absl::StrCat(dim.value),
        absl::StrCat("the elements of a block of layer ", layer, ", ", *spec.block_size, " x ",
                     heads.value, " x ", dim.value, ", overflow 64 bits"));
  }
  const absl::StatusOr<SideBytes> bytes = BytesFor(dtype, *elements);
  if (!bytes.ok()) {
    return WrongField(dim.field, absl::StrCat(dim.value),
                      absl::StrCat("in layer ", layer, ", with block_size ", *spec.block_size,
                                   " and ", heads.value, " heads, ", bytes.status().message()));
  }
  return SideLayout{.dtype = dtype,
                    .block_bytes = bytes->data_bytes + bytes->scale_bytes,
                    .data_bytes = bytes->data_bytes,
                    .scale_bytes = bytes->scale_bytes,
                    .num_heads = heads.value,
                    .head_dim = dim.value,
                    .block_elements = *elements};
}

absl::StatusOr<LayerLayout> ResolveLayer(const PoolSpec& spec, uint32_t layer,
                                         const LayerOverride* own, size_t index) {
  const DtypePair dtype = ChooseDtype(spec, own, layer);
  const Setting heads =
      Choose(own, index, &LayerOverride::num_kv_heads, spec.num_kv_heads, "num_kv_heads");
  const Setting k_dim = Choose(own, index, &LayerOverride::head_dim, spec.head_dim, "head_dim");
  Setting v_dim = Choose(own, index, &LayerOverride::v_head_dim, spec.v_head_dim, "v_head_dim");
  const bool has_own_v_dim = v_dim.value != 0;
  if (!has_own_v_dim) v_dim = k_dim;

  LayerLayout result;
  KVPOOL_ASSIGN_OR_RETURN(result.k, ResolveSide(spec, layer, dtype.k, heads, k_dim));
  switch (spec.v_mode) {
    case VMode::kSeparate: {
      KVPOOL_ASSIGN_OR_RETURN(result.v, ResolveSide(spec, layer, dtype.v, heads, v_dim));
      break;
    }
    case VMode::kAliasesK:
      if (v_dim.value != k_dim.value) {
        return WrongField(
            v_dim.field, absl::StrCat(v_dim.value),
            absl::StrCat("V aliases K, whose head_dim in layer ", layer, " is ", k_dim.value));
      }
      result.v = result.k;
      break;
    case VMode::kNone:
      if (has_own_v_dim) {
        return WrongField(v_dim.field, absl::StrCat(v_dim.value), "v_mode is NONE");
      }
      break;
  }
  return result;
}

absl::StatusOr<std::vector<LayerLayout>> ResolveRaw(const PoolSpec& spec) {
  // Two 32-bit factors do not overflow 64 bits.
  const uint64_t bytes = uint64_t{*spec.block_size} * spec.raw_token_bytes;
  LayerLayout layer;
  layer.k = {.dtype = Dtype::kRaw, .block_bytes = bytes, .data_bytes = bytes};
  if (spec.v_mode != VMode::kNone) layer.v = layer.k;
  return std::vector<LayerLayout>(spec.num_layers, layer);
}

}  // namespace

absl::StatusOr<std::vector<LayerLayout>> ResolveLayers(const PoolSpec& spec) {
  if (spec.raw_token_bytes != 0) return ResolveRaw(spec);
  std::vector<std::optional<size_t>> override_of(spec.num_layers);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    for (uint32_t layer = spec.layers[i].first; layer <= spec.layers[i].last; ++layer) {
      override_of[layer] = i;
    }
  }
  std::vector<LayerLayout> layers;
  layers.reserve(spec.num_layers);
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    const size_t index = override_of[layer].value_or(0);
    const LayerOverride* own = override_of[layer].has_value() ? &spec.layers[index] : nullptr;
    KVPOOL_ASSIGN_OR_RETURN(LayerLayout resolved, ResolveLayer(spec, layer, own, index));
    layers.push_back(resolved);
  }
  return layers;
}

}  // namespace kvpool
