#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "client/options.h"
#include "core/ids.h"
#include "core/layout/pool_layout.h"
#include "kvpool/v1/block.pb.h"

namespace kvpool::client {

// INTERNAL: an answer that no daemon gives.
absl::Status Nonsense(absl::string_view what);

// INVALID_ARGUMENT, naming the field, where `text` is not UTF-8, as Protobuf's strings are: one
// that is not does not arrive.
absl::Status CheckUtf8(absl::string_view field, absl::string_view text);

// The layout that the daemon told. INTERNAL, saying what, where it makes no sense: no layer, no
// block, no shard, an unknown format.
absl::StatusOr<PoolLayout> ReadLayout(const v1::PoolLayout& proto);

Limits LimitsFromProto(const v1::Limits& proto);

// Nothing for the notices that the library keeps to itself.
std::optional<Notice> NoticeFromProto(const v1::Notice& proto);

// The blocks of an answer. INTERNAL unless each has a generation and an id under `num_blocks`.
absl::StatusOr<BlockRef> BlockFromProto(uint32_t id, uint64_t generation, uint32_t num_blocks);
absl::StatusOr<std::vector<BlockRef>> BlocksFromProto(const v1::Blocks& proto, uint32_t num_blocks);

// Ids, and generations unless none is given: a list with some is sent with a 0 where one lacks,
// for the daemon to refuse.
void BlocksToProto(std::span<const BlockRef> blocks, v1::Blocks& proto);

google::protobuf::Duration DurationToProto(Duration duration);
Duration DurationFromProto(const google::protobuf::Duration& proto);

}  // namespace kvpool::client
