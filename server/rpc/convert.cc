#include "server/rpc/convert.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/convert/layout_convert.h"

namespace kvpool::server {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr int64_t kMaxDurationSeconds =
    315'576'000'000;  // What the message may hold: 10,000 years.
constexpr int64_t kLongestSeconds = 100LL * 365 * 24 * 3600;

bool IsPrintable(char c) { return c >= 0x20 && c <= 0x7E; }

void FromNanos(std::chrono::nanoseconds since_epoch, google::protobuf::Timestamp& timestamp) {
  timestamp.set_seconds(since_epoch.count() / kNanosPerSecond);
  timestamp.set_nanos(static_cast<int32_t>(since_epoch.count() % kNanosPerSecond));
}

}  // namespace

absl::StatusOr<std::vector<BlockRef>> ToBlockRefs(
    absl::string_view field, const google::protobuf::RepeatedField<uint32_t>& block_ids,
    const google::protobuf::RepeatedField<uint64_t>& generations, uint32_t max) {
  if (std::cmp_greater(block_ids.size(), max)) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " names ", block_ids.size(), " blocks; one call takes at most ", max));
  }
  if (!generations.empty() && generations.size() != block_ids.size()) {
    return absl::InvalidArgumentError(absl::StrCat(field, " has ", block_ids.size(),
                                                   " block ids and ", generations.size(),
                                                   " generations; give none or as many"));
  }
  std::vector<BlockRef> refs;
  refs.reserve(static_cast<size_t>(block_ids.size()));
  for (int i = 0; i < block_ids.size(); ++i) {
    const uint64_t generation = generations.empty() ? 0 : generations[i];
    if (generation == 0 && !generations.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, " gives generation 0 at index ", i, "; a generation is never 0"));
    }
    refs.push_back({.block = BlockId{block_ids[i]}, .generation = Generation{generation}});
  }
  return refs;
}

absl::StatusOr<std::vector<BlockRef>> ToBlockRefs(absl::string_view field, const v1::Blocks& blocks,
                                                  uint32_t max) {
  return ToBlockRefs(field, blocks.block_ids(), blocks.generations(), max);
}

void FromBlockRefs(const std::vector<BlockRef>& refs, v1::Blocks& blocks) {
  blocks.mutable_block_ids()->Reserve(static_cast<int>(refs.size()));
  blocks.mutable_generations()->Reserve(static_cast<int>(refs.size()));
  for (const BlockRef& ref : refs) {
    blocks.add_block_ids(ToIndex(ref.block));
    blocks.add_generations(static_cast<uint64_t>(ref.generation));
  }
}

absl::StatusOr<Duration> ToDuration(absl::string_view field,
                                    const google::protobuf::Duration& duration) {
  const int64_t seconds = duration.seconds();
  const int32_t nanos = duration.nanos();
  if (seconds < 0 || seconds > kMaxDurationSeconds || nanos < 0 || nanos >= kNanosPerSecond) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is ", seconds, " seconds and ", nanos,
                     " nanoseconds; it is a duration of 0 or more, with nanoseconds of 0 to "
                     "999999999"));
  }
  return std::chrono::seconds(std::min(seconds, kLongestSeconds)) + std::chrono::nanoseconds(nanos);
}

void FromDuration(Duration duration, google::protobuf::Duration& message) {
  const int64_t nanos = std::chrono::nanoseconds(duration).count();
  message.set_seconds(nanos / kNanosPerSecond);
  message.set_nanos(static_cast<int32_t>(nanos % kNanosPerSecond));
}

std::string DurationText(Duration duration) {
  return absl::StrCat(std::chrono::duration<double>(duration).count(), "s");
}

absl::Status CheckPrintable(absl::string_view field, absl::string_view text, size_t max) {
  if (text.size() > max) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has ", text.size(), " bytes; it has at most ", max));
  }
  const auto wrong = std::ranges::find_if_not(text, IsPrintable);
  if (wrong != text.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has the byte ", static_cast<int>(static_cast<uint8_t>(*wrong)),
                     " at index ", wrong - text.begin(), "; it is printable ASCII"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Fill> ToFill(absl::string_view field, v1::Fill fill) {
  if (const std::optional<Fill> known = FillFromProto(fill)) return *known;
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", static_cast<int>(fill), ", which is no Fill"));
}

absl::StatusOr<Side> ToSide(v1::Side side) {
  switch (side) {
    case v1::SIDE_K:
      return Side::kK;
    case v1::SIDE_V:
      return Side::kV;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("piece.side is ", static_cast<int>(side), "; it is SIDE_K or SIDE_V"));
  }
}

v1::Side FromSide(Side side) { return side == Side::kK ? v1::SIDE_K : v1::SIDE_V; }

void WallClock::Convert(TimePoint time, google::protobuf::Timestamp& timestamp) const {
  FromNanos(time.time_since_epoch() + offset_, timestamp);
}

void FromSystemTime(std::chrono::system_clock::time_point time,
                    google::protobuf::Timestamp& timestamp) {
  FromNanos(time.time_since_epoch(), timestamp);
}

}  // namespace kvpool::server
