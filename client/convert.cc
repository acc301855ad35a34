#include "client/convert.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "core/status_macros.h"
#include "core/utf8.h"
#include "proto/convert/layout_convert.h"

namespace kvpool::client {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;

}  // namespace

absl::Status Nonsense(absl::string_view what) {
  return absl::InternalError(absl::StrCat("the daemon's answer makes no sense: ", what));
}

absl::StatusOr<PoolLayout> ReadLayout(const v1::PoolLayout& proto) {
  absl::StatusOr<PoolLayout> layout = LayoutFromProto(proto);
  if (!layout.ok()) return Nonsense(layout.status().message());
  if (layout->num_blocks == 0) return Nonsense("a pool of no blocks");
  if (layout->layers.empty()) return Nonsense("a pool of no layers");
  if (layout->spec.devices.empty()) return Nonsense("a pool of no shards");
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

absl::StatusOr<BlockRef> BlockFromProto(uint32_t id, uint64_t generation, uint32_t num_blocks) {
  if (id >= num_blocks || generation == 0) {
    return Nonsense(absl::StrCat("block ", id, " of ", num_blocks, ", generation ", generation));
  }
  return BlockRef{.block = BlockId{id}, .generation = Generation{generation}};
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
    KVPOOL_ASSIGN_OR_RETURN(const BlockRef ref,
                            BlockFromProto(proto.block_ids(i), proto.generations(i), num_blocks));
    blocks.push_back(ref);
  }
  return blocks;
}

absl::Status CheckUtf8(absl::string_view field, absl::string_view text) {
  if (IsUtf8(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " \"", absl::CHexEscape(text), "\" is not UTF-8"));
}

void BlocksToProto(std::span<const BlockRef> blocks, v1::Blocks& proto) {
  const bool has_generations = std::ranges::any_of(
      blocks, [](const BlockRef& ref) { return ref.generation != Generation{}; });
  for (const BlockRef& ref : blocks) {
    proto.add_block_ids(ToIndex(ref.block));
    if (has_generations) proto.add_generations(static_cast<uint64_t>(ref.generation));
  }
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
