#include "proto/convert/layout_convert.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include <google/protobuf/descriptor.h>
#include <google/protobuf/generated_enum_reflection.h>

#include "core/check.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

// A number that `Enum` does not have.
template <typename Enum>
absl::Status UnknownNumber(absl::string_view field, Enum number) {
  std::string known;
  const google::protobuf::EnumDescriptor& type = *google::protobuf::GetEnumDescriptor<Enum>();
  for (int i = 0; i < type.value_count(); ++i) {
    absl::StrAppend(&known, i == 0 ? "" : ", ", type.value(i)->name(), " = ",
                    type.value(i)->number());
  }
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", static_cast<int>(number),
                                                 ", a number that the API does not know; it knows ",
                                                 known));
}

absl::StatusOr<VMode> VModeFromProto(v1::VMode mode) {
  switch (mode) {
    case v1::V_MODE_UNSPECIFIED:
    case v1::V_MODE_SEPARATE:
      return VMode::kSeparate;
    case v1::V_MODE_ALIASES_K:
      return VMode::kAliasesK;
    case v1::V_MODE_NONE:
      return VMode::kNone;
    default:
      return UnknownNumber("v_mode", mode);
  }
}

v1::VMode VModeToProto(VMode mode) {
  switch (mode) {
    case VMode::kSeparate:
      return v1::V_MODE_SEPARATE;
    case VMode::kAliasesK:
      return v1::V_MODE_ALIASES_K;
    case VMode::kNone:
      return v1::V_MODE_NONE;
  }
  KVPOOL_CHECK(false);
}

absl::StatusOr<MemoryOrder> OrderFromProto(v1::MemoryOrder order) {
  switch (order) {
    case v1::MEMORY_ORDER_UNSPECIFIED:
    case v1::MEMORY_ORDER_LAYER_MAJOR:
      return MemoryOrder::kLayerMajor;
    case v1::MEMORY_ORDER_BLOCK_MAJOR:
      return MemoryOrder::kBlockMajor;
    default:
      return UnknownNumber("memory_order", order);
  }
}

v1::MemoryOrder OrderToProto(MemoryOrder order) {
  switch (order) {
    case MemoryOrder::kLayerMajor:
      return v1::MEMORY_ORDER_LAYER_MAJOR;
    case MemoryOrder::kBlockMajor:
      return v1::MEMORY_ORDER_BLOCK_MAJOR;
  }
  KVPOOL_CHECK(false);
}

LayerOverride OverrideFromProto(const v1::LayerOverride& message) {
  return {.first = message.first(),
          .last = message.last(),
          .dtype = message.dtype(),
          .num_kv_heads = message.num_kv_heads(),
          .head_dim = message.head_dim(),
          .v_head_dim = message.v_head_dim()};
}

void OverrideToProto(const LayerOverride& layer, v1::LayerOverride& message) {
  message.set_first(layer.first);
  message.set_last(layer.last);
  message.set_dtype(layer.dtype);
  message.set_num_kv_heads(layer.num_kv_heads);
  message.set_head_dim(layer.head_dim);
  message.set_v_head_dim(layer.v_head_dim);
}

void SideToProto(const SideLayout& side, v1::SideLayout& message) {
  const absl::string_view dtype = DtypeName(side.dtype);
  message.set_dtype(dtype.data(), dtype.size());
  message.set_offset_bytes(side.offset_bytes);
  message.set_stride_bytes(side.stride_bytes);
  message.set_block_bytes(side.block_bytes);
  message.set_data_bytes(side.data_bytes);
  message.set_scale_bytes(side.scale_bytes);
  message.set_num_heads(side.num_heads);
  message.set_head_dim(side.head_dim);
  message.set_block_elements(side.block_elements);
}

absl::StatusOr<SideLayout> SideFromProto(absl::string_view field, const v1::SideLayout& message) {
  const absl::StatusOr<DtypePair> dtype = ParseDtype(message.dtype());
  if (!dtype.ok() || dtype->k != dtype->v) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".dtype is \"", absl::CHexEscape(message.dtype()),
                     "\", not a format of one side that is known here"));
  }
  return SideLayout{.dtype = dtype->k,
                    .offset_bytes = message.offset_bytes(),
                    .stride_bytes = message.stride_bytes(),
                    .block_bytes = message.block_bytes(),
                    .data_bytes = message.data_bytes(),
                    .scale_bytes = message.scale_bytes(),
                    .num_heads = message.num_heads(),
                    .head_dim = message.head_dim(),
                    .block_elements = message.block_elements()};
}

}  // namespace

absl::StatusOr<PoolSpec> SpecFromProto(const v1::PoolSpec& message) {
  PoolSpec spec;
  KVPOOL_ASSIGN_OR_RETURN(spec.v_mode, VModeFromProto(message.v_mode()));
  KVPOOL_ASSIGN_OR_RETURN(spec.memory_order, OrderFromProto(message.memory_order()));
  const std::optional<Fill> fill = FillFromProto(message.fill_on_alloc());
  if (!fill.has_value()) return UnknownNumber("fill_on_alloc", message.fill_on_alloc());
  spec.fill_on_alloc = *fill;
  spec.name = message.name();
  if (message.has_block_size()) spec.block_size = message.block_size();
  spec.num_layers = message.num_layers();
  spec.num_kv_heads = message.num_kv_heads();
  spec.head_dim = message.head_dim();
  spec.v_head_dim = message.v_head_dim();
  spec.dtype = message.dtype();
  spec.raw_token_bytes = message.raw_token_bytes();
  for (const v1::LayerOverride& layer : message.layers()) {
    spec.layers.push_back(OverrideFromProto(layer));
  }
  spec.high_precision_layers = message.high_precision_layers();
  if (message.has_num_blocks()) spec.num_blocks = message.num_blocks();
  if (message.has_memory_bytes()) spec.memory_bytes = message.memory_bytes();
  if (message.has_memory_utilization()) spec.memory_utilization = message.memory_utilization();
  spec.reserve_bytes = message.reserve_bytes();
  spec.devices.assign(message.devices().begin(), message.devices().end());
  spec.cache_blocks_per_seq = message.cache_blocks_per_seq();
  spec.eviction_policy = message.eviction_policy();
  spec.max_blocks_per_tenant = message.max_blocks_per_tenant();
  spec.tenants.assign(message.tenants().begin(), message.tenants().end());
  return spec;
}

std::optional<Fill> FillFromProto(v1::Fill fill) {
  switch (fill) {
    case v1::FILL_UNSPECIFIED:
      return Fill::kUnspecified;
    case v1::FILL_ACROSS_TENANTS:
      return Fill::kAcrossTenants;
    case v1::FILL_ZERO:
      return Fill::kZero;
    case v1::FILL_POISON:
      return Fill::kPoison;
    default:
      return std::nullopt;
  }
}

v1::Fill FillToProto(Fill fill) {
  switch (fill) {
    case Fill::kUnspecified:
      return v1::FILL_UNSPECIFIED;
    case Fill::kAcrossTenants:
      return v1::FILL_ACROSS_TENANTS;
    case Fill::kZero:
      return v1::FILL_ZERO;
    case Fill::kPoison:
      return v1::FILL_POISON;
  }
  KVPOOL_CHECK(false);
}

v1::PoolSpec SpecToProto(const PoolSpec& spec) {
  v1::PoolSpec message;
  message.set_name(spec.name);
  if (spec.block_size.has_value()) message.set_block_size(*spec.block_size);
  message.set_num_layers(spec.num_layers);
  message.set_num_kv_heads(spec.num_kv_heads);
  message.set_head_dim(spec.head_dim);
  message.set_v_head_dim(spec.v_head_dim);
  message.set_dtype(spec.dtype);
  message.set_raw_token_bytes(spec.raw_token_bytes);
  for (const LayerOverride& layer : spec.layers) OverrideToProto(layer, *message.add_layers());
  message.set_high_precision_layers(spec.high_precision_layers);
  message.set_v_mode(VModeToProto(spec.v_mode));
  if (spec.num_blocks.has_value()) message.set_num_blocks(*spec.num_blocks);
  if (spec.memory_bytes.has_value()) message.set_memory_bytes(*spec.memory_bytes);
  if (spec.memory_utilization.has_value()) {
    message.set_memory_utilization(*spec.memory_utilization);
  }
  message.set_reserve_bytes(spec.reserve_bytes);
  message.mutable_devices()->Add(spec.devices.begin(), spec.devices.end());
  message.set_memory_order(OrderToProto(spec.memory_order));
  message.set_fill_on_alloc(FillToProto(spec.fill_on_alloc));
  message.set_cache_blocks_per_seq(spec.cache_blocks_per_seq);
  message.set_eviction_policy(spec.eviction_policy);
  message.set_max_blocks_per_tenant(spec.max_blocks_per_tenant);
  message.mutable_tenants()->Add(spec.tenants.begin(), spec.tenants.end());
  return message;
}

v1::PoolLayout LayoutToProto(const PoolLayout& layout) {
  v1::PoolLayout message;
  *message.mutable_spec() = SpecToProto(layout.spec);
  message.set_num_blocks(layout.num_blocks);
  message.set_block_bytes(layout.block_bytes);
  message.set_shard_bytes(layout.shard_bytes);
  for (const LayerLayout& layer : layout.layers) {
    v1::LayerLayout& added = *message.add_layers();
    SideToProto(layer.k, *added.mutable_k());
    if (layer.v.has_value()) SideToProto(*layer.v, *added.mutable_v());
  }
  message.set_fingerprint(layout.fingerprint);
  return message;
}

absl::StatusOr<PoolLayout> LayoutFromProto(const v1::PoolLayout& message) {
  PoolLayout layout;
  KVPOOL_ASSIGN_OR_RETURN(layout.spec, SpecFromProto(message.spec()));
  layout.num_blocks = message.num_blocks();
  layout.block_bytes = message.block_bytes();
  layout.shard_bytes = message.shard_bytes();
  for (int i = 0; i < message.layers_size(); ++i) {
    const std::string field = absl::StrCat("layers[", i, "]");
    LayerLayout layer;
    KVPOOL_ASSIGN_OR_RETURN(layer.k,
                            SideFromProto(absl::StrCat(field, ".k"), message.layers(i).k()));
    if (message.layers(i).has_v()) {
      KVPOOL_ASSIGN_OR_RETURN(layer.v,
                              SideFromProto(absl::StrCat(field, ".v"), message.layers(i).v()));
    }
    layout.layers.push_back(layer);
  }
  layout.fingerprint = message.fingerprint();
  return layout;
}

}  // namespace kvpool
