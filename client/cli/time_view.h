#pragma once

#include <string>

#include "absl/time/time.h"
#include <google/protobuf/timestamp.pb.h>

namespace kvpool::cli {

// "2026-01-31T12:00:00Z (3m12s ago)", or "-" for none.
std::string TimeText(const google::protobuf::Timestamp& time, absl::Time now);

// The time of a timestamp, to the nanosecond.
absl::Time TimeOf(const google::protobuf::Timestamp& time);

}  // namespace kvpool::cli
