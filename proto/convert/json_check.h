#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include <google/protobuf/message.h>

namespace kvpool {

// Reads `json` into `message`, more strictly than protobuf does: no comments, trailing commas,
// duplicate or unknown keys, no null, numbers as numbers (64-bit ones also as a string of digits),
// enums by name, one of a oneof.
//
// INVALID_ARGUMENT: "line 3, column 5: pools[0].num_blocks: 1.5 is not a whole number". What it
// says of a name that is none lists the names, or the one that is nearest.
absl::Status ParseJson(absl::string_view json, google::protobuf::Message& message);

}  // namespace kvpool
