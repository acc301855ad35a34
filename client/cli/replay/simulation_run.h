#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "client/cli/replay/arguments.h"
#include "client/cli/replay/trace.h"

namespace kvpool::replay {

// What simulations of one trace gave. A value.
struct SimulationRun {
  // One policy, or the optimum, at one capacity.
  struct Point {
    std::optional<uint32_t> capacity{};  // Absent: infinite.
    std::string policy{};
    uint64_t hit_blocks = 0;
    std::optional<uint64_t> evicted_blocks{};  // Absent for the optimum.
  };

  std::string trace_name{};  // The file's, without its directory.
  uint64_t request_count = 0;
  uint64_t block_count = 0;  // Full blocks, each as often as it is accessed.
  uint64_t unique_count = 0;
  std::vector<Point> points{};  // By capacity, the optimum last of each.

  // Runs the trace at each capacity under each policy. RESOURCE_EXHAUSTED where a capacity and
  // the longest request together are more blocks than a pool can have.
  static absl::StatusOr<SimulationRun> Make(const std::string& path, const Trace& trace,
                                            const ReplayArguments& arguments);

  double HitPercent(const Point& point) const;  // 0 of a trace without blocks.

  // A line for each capacity, with the hit ratios in percent.
  std::string ToTable() const;
  // A line for each point, after one of titles.
  std::string ToCsv() const;
  std::string ToJson() const;
};

}  // namespace kvpool::replay
