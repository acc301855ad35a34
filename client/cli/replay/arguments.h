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

// What `kvpoolctl replay --simulate` is to do.
struct SimulationArguments {
  std::vector<std::optional<uint32_t>> capacities;  // Absent: infinite.
  std::vector<EvictionPolicyName> policies;
};

// What `kvpoolctl replay` is to do with a daemon.
struct DriveArguments {
  static constexpr uint32_t kMaxWorkers = 256;
  static constexpr double kMaxSpeed = 1'000'000;

  std::string pool;
  uint32_t workers = 1;
  double speed = 0;                    // 0: as fast as it can.
  std::optional<uint32_t> capacity{};  // How many blocks to leave cached. Absent: all there are.
};

// The options of `kvpoolctl replay`, checked. One of `simulation` and `drive` is there.
struct ReplayArguments {
  static constexpr uint32_t kMaxCapacity = 1U << 30;

  TraceFormat format{};
  uint32_t done_percent = 0;
  std::optional<SimulationArguments> simulation{};
  std::optional<DriveArguments> drive{};

  // A usage error, naming the option, where one is missing, out of range, or of the other kind of
  // replay.
  static absl::StatusOr<ReplayArguments> Read(const cli::Options& options);
};

}  // namespace kvpool::replay
