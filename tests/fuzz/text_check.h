#pragma once

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

#include "tests/fuzz/finding.h"

namespace kvpool::test {

// What is said of a text that is refused: INVALID_ARGUMENT, beginning with `start`, in one line
// that can be shown.
inline void CheckRefusal(const absl::Status& status, absl::string_view start) {
  const std::string message(status.message());
  Expect(absl::IsInvalidArgument(status), "a text is refused as " + status.ToString());
  Expect(absl::StartsWith(message, start), "an error that does not say where: " + message);
  const bool is_shown = std::ranges::none_of(
      message, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; });
  Expect(is_shown, "an error with control characters: " + message);
}

}  // namespace kvpool::test
