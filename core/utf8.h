#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace kvpool {

// The bytes of the UTF-8 character that `text` begins with, 1 to 4; 0 where it begins with none
// (overlong forms, surrogates and what is beyond U+10FFFF are none). Requires a byte at least.
size_t Utf8CharacterSize(absl::string_view text);

// Whether `text` is UTF-8 to its end. Protobuf's strings are: one that is not does not arrive.
bool IsUtf8(absl::string_view text);

}  // namespace kvpool
