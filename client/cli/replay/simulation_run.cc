#include "client/cli/replay/simulation_run.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <json/json.h>

#include "client/cli/replay/done_hints.h"
#include "client/cli/replay/optimum.h"
#include "client/cli/replay/report.h"
#include "client/cli/replay/simulation.h"
#include "client/cli/table.h"
#include "client/cli/text.h"
#include "core/layout/pool_layout.h"
#include "core/ledger/policy_names.h"

namespace kvpool::replay {
namespace {

std::string CapacityText(const std::optional<uint32_t>& capacity) {
  return capacity.has_value() ? absl::StrCat(*capacity) : "infinite";
}

uint32_t LongestRequest(const Trace& trace) {
  size_t longest = 1;
  for (const TraceRequest& request : trace.requests()) {
    longest = std::max(longest, request.block_count);
  }
  return static_cast<uint32_t>(longest);  // At most Trace::kMaxBlocks.
}

SimulationRun::Point Simulate(const Trace& trace, const std::vector<bool>& is_done,
                              EvictionPolicyName policy, uint32_t capacity) {
  Simulation simulation(policy, capacity, LongestRequest(trace));
  SimulationRun::Point point{.policy = std::string(PolicyName(policy)), .evicted_blocks = 0};
  for (size_t i = 0; i < trace.requests().size(); ++i) {
    const TraceRequest& request = trace.requests()[i];
    const auto outcome = simulation.Run(trace.blocks(request), TimePoint(request.time), is_done[i]);
    point.hit_blocks += outcome.hit_blocks;
    *point.evicted_blocks += outcome.evicted_blocks;
  }
  return point;
}

}  // namespace

absl::StatusOr<SimulationRun> SimulationRun::Make(const std::string& path, const Trace& trace,
                                                  const ReplayArguments& arguments) {
  const Optimum optimum(trace);
  const std::vector<bool> is_done = ChooseDone(trace, arguments.done_percent);
  SimulationRun run{.trace_name = std::filesystem::path(path).filename().string(),
                    .request_count = trace.requests().size(),
                    .block_count = trace.block_count(),
                    .unique_count = optimum.unique_count()};
  for (const std::optional<uint32_t>& capacity : arguments.simulation->capacities) {
    const uint32_t count = capacity.value_or(static_cast<uint32_t>(run.unique_count));
    if (uint64_t{count} + LongestRequest(trace) > kMaxBlocks) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a capacity of ", count, " and the longest request, of ",
                       LongestRequest(trace), " blocks, are more than a pool can have"));
    }
    for (const EvictionPolicyName policy : arguments.simulation->policies) {
      run.points.push_back(Simulate(trace, is_done, policy, count));
      run.points.back().capacity = capacity;
    }
    run.points.push_back(
        {.capacity = capacity, .policy = "optimum", .hit_blocks = optimum.CountHits(count)});
  }
  return run;
}

double SimulationRun::HitPercent(const Point& point) const {
  return Percent(point.hit_blocks, block_count);
}

std::string SimulationRun::ToTable() const {
  // Each capacity has the same policies.
  const auto first_optimum = std::ranges::find(points, "optimum", &Point::policy);
  std::vector<std::string> titles = {">capacity"};
  for (auto point = points.begin(); point != points.end() && point <= first_optimum; ++point) {
    titles.push_back(absl::StrCat(">", point->policy));
  }
  const size_t column_count = titles.size() - 1;
  cli::Table table(titles);
  for (size_t i = 0; i < points.size(); i += column_count) {
    std::vector<std::string> row = {CapacityText(points[i].capacity)};
    for (size_t column = 0; column < column_count; ++column) {
      row.push_back(absl::StrFormat("%.2f", HitPercent(points[i + column])));
    }
    table.AddRow(std::move(row));
  }
  return absl::StrCat(cli::Printable(trace_name), ": ", request_count, " requests, ", block_count,
                      " blocks, ", unique_count, " of them different\nblocks found, in percent:\n",
                      table.ToString());
}

std::string SimulationRun::ToCsv() const {
  std::string text = "trace,policy,capacity,hit_percent,hit_blocks,blocks,evicted_blocks\n";
  for (const Point& point : points) {
    absl::StrAppend(&text, CsvField(trace_name), ",", point.policy, ",",
                    CapacityText(point.capacity), ",", absl::StrFormat("%.2f", HitPercent(point)),
                    ",", point.hit_blocks, ",", block_count, ",");
    if (point.evicted_blocks.has_value()) absl::StrAppend(&text, *point.evicted_blocks);
    text += "\n";
  }
  return text;
}

std::string SimulationRun::ToJson() const {
  Json::Value root;
  root["trace"] = trace_name;
  root["requests"] = Json::UInt64{request_count};
  root["blocks"] = Json::UInt64{block_count};
  root["unique_blocks"] = Json::UInt64{unique_count};
  root["points"] = Json::Value(Json::arrayValue);
  for (const Point& point : points) {
    Json::Value& value = root["points"].append(Json::Value());
    value["policy"] = point.policy;
    // Absent: infinite.
    if (point.capacity.has_value()) value["capacity"] = *point.capacity;
    value["hit_percent"] = HitPercent(point);
    value["hit_blocks"] = Json::UInt64{point.hit_blocks};
    if (point.evicted_blocks.has_value()) {
      value["evicted_blocks"] = Json::UInt64{*point.evicted_blocks};
    }
  }
  return JsonText(root);
}

}  // namespace kvpool::replay
