#pragma once

#include <span>

#include "absl/strings/string_view.h"

namespace kvpool {

// The one of `names` that `text` is most likely meant to be: fewest letters away, where a letter
// that is missing, too much, another or swapped with the next counts one. Of equals, the first.
// Empty where more than a third of the letters would have to change.
absl::string_view NearestName(absl::string_view text, std::span<const absl::string_view> names);

}  // namespace kvpool
