#include "client/convert.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/status_macros.h"

namespace kvpool::client {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;

absl::Status Nonsense(absl::string_view what) {
  return absl::InternalError(absl::StrCat("the daemon's answer makes no sense: ", what));
}

VMode VModeFromProto(v1::VMode mode) {
  switch (mode) {
    case v1::V_MODE_ALIASES_K:
      return VMode::kAliasesK;
    case v1::V_MODE_NONE:
      return VMode::kNone;
    default:
      return VMode::kSeparate;
  }
}

Fill FillFromProto(v1::Fill fill) {
  switch (fill) {
    case v1::FILL_ACROSS_TENANTS:
      return Fill::kAcrossTenants;
    case v1::FILL_ZERO:
      return Fill::kZero;
    case v1::FILL_POISON:
      return Fill::kPoison;
    default:
      return Fill::kUnspecified;
  }
}

PoolSpec SpecFromProto(const v1::PoolSpec& proto) {
  PoolSpec spec{
      .name = proto.name(),
      .block_size = std::nullopt,
      .num_layers = proto.num_layers(),
      .num_kv_heads = proto.num_kv_heads(),
      .head_dim = proto.head_dim(),
      .v_head_dim = proto.v_head_dim(),
      .dtype = proto.dtype(),
      .raw_token_bytes = proto.raw_token_bytes(),
      .layers = {},
      .high_precision_layers = proto.high_precision_layers(),
      .v_mode = VModeFromProto(proto.v_mode()),
      .num_blocks = std::nullopt,
      .memory_bytes = std::nullopt,
      .memory_utilization = std::nullopt,
      .reserve_bytes = proto.reserve_bytes(),
      .devices = {proto.devices().begin(), proto.devices().end()},
      .memory_order = proto.memory_order() == v1::MEMORY_ORDER_BLOCK_MAJOR
                          ? MemoryOrder::kBlockMajor
                          : MemoryOrder::kLayerMajor,
      .fill_on_alloc = FillFromProto(proto.fill_on_alloc()),
      .cache_blocks_per_seq = proto.cache_blocks_per_seq(),
      .eviction_policy = proto.eviction_policy(),
      .max_blocks_per_tenant = proto.max_blocks_per_tenant(),
      .tenants = {proto.tenants().begin(), proto.tenants().end()},
  };
  if (proto.has_block_size()) spec.block_size = proto.block_size();
  if (proto.has_num_blocks()) spec.num_blocks = proto.num_blocks();
  if (proto.has_memory_bytes()) spec.memory_bytes = proto.memory_bytes();
  if (proto.has_memory_utilization()) spec.memory_utilization = proto.memory_utilization();
  for (const v1::LayerOverride& layer : proto.layers()) {
    spec.layers.push_back({.first = layer.first(),
                           .last = layer.last(),
                           .dtype = layer.dtype(),
                           .num_kv_heads = layer.num_kv_heads(),
                           .head_dim = layer.head_dim(),
                           .v_head_dim = layer.v_head_dim()});
  }
  return spec;
}

absl::StatusOr<SideLayout> SideFromProto(const v1::SideLayout& proto) {
  const absl::StatusOr<DtypePair> dtype = ParseDtype(proto.dtype());
  if (!dtype.ok() || dtype->k != dtype->v) {
    return Nonsense(absl::StrCat("a side's dtype is '", proto.dtype(), "'"));
  }
  if (proto.block_bytes() == 0 || proto.block_bytes() > proto.stride_bytes()) {
    return Nonsense(absl::StrCat("a block of ", proto.block_bytes(), " bytes, a stride of ",
                                 proto.stride_bytes()));
  }
  return SideLayout{.dtype = dtype->k,
                    .offset_bytes = proto.offset_bytes(),
                    .stride_bytes = proto.stride_bytes(),
                    .block_bytes = proto.block_bytes(),
                    .data_bytes = proto.data_bytes(),
                    .scale_bytes = proto.scale_bytes(),
                    .num_heads = proto.num_heads(),
                    .head_dim = proto.head_dim(),
                    .block_elements = proto.block_elements()};
}

}  // namespace

absl::StatusOr<PoolLayout> LayoutFromProto(const v1::PoolLayout& proto) {
  PoolLayout layout{.spec = SpecFromProto(proto.spec()),
                    .num_blocks = proto.num_blocks(),
                    .block_bytes = proto.block_bytes(),
                    .shard_bytes = proto.shard_bytes(),
                    .layers = {},
                    .fingerprint = proto.fingerprint()};
  if (layout.num_blocks == 0) return Nonsense("a pool of no blocks");
  if (proto.layers().empty()) return Nonsense("a pool of no layers");
  if (layout.spec.devices.empty()) return Nonsense("a pool of no shards");
  for (const v1::LayerLayout& layer : proto.layers()) {
    LayerLayout& added = layout.layers.emplace_back();
    KVPOOL_ASSIGN_OR_RETURN(added.k, SideFromProto(layer.k()));
    if (layer.has_v()) {
      KVPOOL_ASSIGN_OR_RETURN(added.v, SideFromProto(layer.v()));
    }
  }
  return layout;
}

Limits LimitsFromProto(const v1::Limits& proto) {
  return {.max_blocks_per_call = proto.max_blocks_per_call(),
          .max_tokens_per_call = proto.max_tokens_per_call(),
          .max_message_bytes = proto.max_message_bytes(),
          .max_wait = DurationFromProto(proto.max_wait()),
          .max_idempotency_keys = proto.max_idempotency_keys()};
}

std::optional<Notice> NoticeFromProto(const v1::Notice& proto) {
  Notice notice{.kind = {},
                .message = proto.message(),
                .deadline = DurationFromProto(proto.deadline()),
                .blocks = proto.blocks()};
  switch (proto.kind()) {
    case v1::Notice::KIND_DRAINING:
      notice.kind = Notice::Kind::kDraining;
      return notice;
    case v1::Notice::KIND_TERMINATED:
      notice.kind = Notice::Kind::kTerminated;
      return notice;
    case v1::Notice::KIND_PREFIXES_RESET:
      notice.kind = Notice::Kind::kPrefixesReset;
      return notice;
    case v1::Notice::KIND_MEMBER_GONE:
      notice.kind = Notice::Kind::kMemberGone;
      return notice;
    case v1::Notice::KIND_RECALL:
      notice.kind = Notice::Kind::kRecall;
      return notice;
    default:
      return std::nullopt;
  }
}

absl::StatusOr<std::vector<BlockRef>> BlocksFromProto(const v1::Blocks& proto,
                                                      uint32_t num_blocks) {
  if (proto.block_ids_size() != proto.generations_size()) {
    return Nonsense(absl::StrCat(proto.block_ids_size(), " blocks, ", proto.generations_size(),
                                 " generations"));
  }
  std::vector<BlockRef> blocks;
  blocks.reserve(static_cast<size_t>(proto.block_ids_size()));
  for (int i = 0; i < proto.block_ids_size(); ++i) {
    const BlockRef ref{.block = BlockId{proto.block_ids(i)},
                       .generation = Generation{proto.generations(i)}};
    if (proto.block_ids(i) >= num_blocks || ref.generation == Generation{}) {
      return Nonsense(absl::StrCat("block ", proto.block_ids(i), " of ", num_blocks,
                                   ", generation ", proto.generations(i)));
    }
    blocks.push_back(ref);
  }
  return blocks;
}

void BlocksToProto(std::span<const BlockRef> blocks, v1::Blocks& proto) {
  const bool has_generations = std::ranges::any_of(
      blocks, [](const BlockRef& ref) { return ref.generation != Generation{}; });
  for (const BlockRef& ref : blocks) {
    proto.add_block_ids(ToIndex(ref.block));
    if (has_generations) proto.add_generations(static_cast<uint64_t>(ref.generation));
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
  return v1::FILL_UNSPECIFIED;
}

google::protobuf::Duration DurationToProto(Duration duration) {
  const int64_t nanos = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  google::protobuf::Duration proto;
  proto.set_seconds(nanos / kNanosPerSecond);
  proto.set_nanos(static_cast<int32_t>(nanos % kNanosPerSecond));
  return proto;
}

Duration DurationFromProto(const google::protobuf::Duration& proto) {
  // 64 bits of nanoseconds are 292 years; the daemon's durations are hours.
  constexpr int64_t kMaxSeconds = int64_t{1} << 32;
  return std::chrono::seconds(std::clamp(proto.seconds(), -kMaxSeconds, kMaxSeconds)) +
         std::chrono::nanoseconds(proto.nanos());
}

}  // namespace kvpool::client
