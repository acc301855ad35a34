#include "client/cli/time_view.h"

#include "absl/strings/str_cat.h"

#include "client/cli/text.h"

namespace kvpool::cli {

absl::Time TimeOf(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

std::string TimeText(const google::protobuf::Timestamp& time, absl::Time now) {
  if (time.seconds() == 0 && time.nanos() == 0) return "-";
  return absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", TimeOf(time), absl::UTCTimeZone()),
                      " (", AgeText(TimeOf(time), now), " ago)");
}

}  // namespace kvpool::cli
