#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/repeated_field.h>
#include <google/protobuf/timestamp.pb.h>

#include "core/clock.h"
#include "core/ids.h"
#include "core/layout/pool_spec.h"
#include "core/memory/memory.h"
#include "kvpool/v1/block.pb.h"

namespace kvpool::server {

// The blocks of a request's field `field`, which errors name. Generations that are not given are
// 0. Errors: INVALID_ARGUMENT: more than `max` entries, generations that are neither none nor as
// many as the ids, or a generation given as 0.
absl::StatusOr<std::vector<BlockRef>> ToBlockRefs(
    absl::string_view field, const google::protobuf::RepeatedField<uint32_t>& block_ids,
    const google::protobuf::RepeatedField<uint64_t>& generations, uint32_t max);
absl::StatusOr<std::vector<BlockRef>> ToBlockRefs(absl::string_view field, const v1::Blocks& blocks,
                                                  uint32_t max);

// The reverse; generations are always filled.
void FromBlockRefs(const std::vector<BlockRef>& refs, v1::Blocks& blocks);

// A duration that a request gives in `field`. More than a hundred years is a hundred years: no
// limit here is near it, and monotonic time cannot hold all that the message can.
// Errors: INVALID_ARGUMENT, naming the value: negative, or not a valid duration.
absl::StatusOr<Duration> ToDuration(absl::string_view field,
                                    const google::protobuf::Duration& duration);
void FromDuration(Duration duration, google::protobuf::Duration& message);

// "1.5s": a duration as JSON spells it.
std::string DurationText(Duration duration);

// INVALID_ARGUMENT, naming `field`, unless `text` is at most `max` bytes of printable ASCII.
absl::Status CheckPrintable(absl::string_view field, absl::string_view text, size_t max);

// INVALID_ARGUMENT, naming `field`, where the value is none that there is.
absl::StatusOr<Fill> ToFill(absl::string_view field, v1::Fill fill);

// INVALID_ARGUMENT unless `side` is K or V.
absl::StatusOr<Side> ToSide(v1::Side side);
v1::Side FromSide(Side side);

// Turns monotonic time into wall-clock time, by the offset between the two when it was made: what
// happened first stays first, however the wall clock is set meanwhile.
class WallClock {
 public:
  explicit WallClock(const Clock& clock)
      : offset_(std::chrono::system_clock::now().time_since_epoch() - clock().time_since_epoch()) {}

  void Convert(TimePoint time, google::protobuf::Timestamp& timestamp) const;

 private:
  const std::chrono::nanoseconds offset_;
};

void FromSystemTime(std::chrono::system_clock::time_point time,
                    google::protobuf::Timestamp& timestamp);

}  // namespace kvpool::server
