#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "client/cli/options.h"
#include "client/cli/replay/trace.h"
#include "core/ledger/options.h"

namespace kvpool::replay {

// The policy's name in the API.
absl::string_view PolicyName(EvictionPolicyName policy);

// What `kvpoolctl replay --simulate` is to do.
struct SimulationArguments {
  std::vector<std::optional<uint32_t>> capacities;  // Absent: infinite.
  std::vector<EvictionPolicyName> policies;
};

// The options of `kvpoolctl replay`, checked.
struct ReplayArguments {
  static constexpr uint32_t kMaxCapacity = 1U << 30;

  TraceFormat format{};
  uint32_t done_percent = 0;
  SimulationArguments simulation{};

  // A usage error, naming the option, where one is missing or out of range.
  static absl::StatusOr<ReplayArguments> Read(const cli::Options& options);
};

}  // namespace kvpool::replay
