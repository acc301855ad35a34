#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include "absl/strings/string_view.h"

#include "core/layout/pool_spec.h"
#include "core/ledger/options.h"

namespace kvpool {

// The policies in the order of their names in kEvictionPolicies.
inline constexpr std::array kPolicies = {EvictionPolicyName::kLearned,
                                         EvictionPolicyName::kLeafLru};
static_assert(kPolicies.size() == kEvictionPolicies.size());

// Absent where no policy has that name.
inline std::optional<EvictionPolicyName> FindPolicy(absl::string_view name) {
  const auto found = std::ranges::find(kEvictionPolicies, name);
  if (found == kEvictionPolicies.end()) return std::nullopt;
  return kPolicies[static_cast<size_t>(found - kEvictionPolicies.begin())];
}

inline absl::string_view PolicyName(EvictionPolicyName policy) {
  return kEvictionPolicies[static_cast<size_t>(std::ranges::find(kPolicies, policy) -
                                               kPolicies.begin())];
}

}  // namespace kvpool
