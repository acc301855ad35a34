#include "client/cli/replay/drive_report.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <json/json.h>

#include "client/cli/replay/report.h"
#include "client/cli/table.h"

namespace kvpool::replay {
namespace {

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

double Microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// The least that `percent` of them do not exceed.
std::chrono::nanoseconds Percentile(const std::vector<int64_t>& sorted, size_t percent) {
  if (sorted.empty()) return {};
  return std::chrono::nanoseconds(sorted[(sorted.size() * percent + 99) / 100 - 1]);
}

}  // namespace

void DriveReport::CountResults(std::span<const RequestResult> results) {
  for (const RequestResult& result : results) {
    if (result.state == RequestResult::State::kRefused) ++refused_count;
    hit_blocks += result.hit_blocks;
    published_blocks += result.published_blocks;
  }
  const std::array<std::pair<const char*, int64_t RequestResult::*>, 3> kinds = {{
      {"acquire", &RequestResult::acquire_ns},
      {"publish", &RequestResult::publish_ns},
      {"release", &RequestResult::release_ns},
  }};
  for (const auto& [name, field] : kinds) {
    std::vector<int64_t> times;
    for (const RequestResult& result : results) {
      if (result.*field >= 0) times.push_back(result.*field);
    }
    std::ranges::sort(times);
    calls.push_back({.name = name,
                     .count = times.size(),
                     .p50 = Percentile(times, 50),
                     .p99 = Percentile(times, 99)});
  }
}

std::string DriveReport::ToTable() const {
  cli::Table figures;
  figures.AddRow({"trace", trace_name});
  figures.AddRow({"pool", absl::StrCat(pool, ", ", num_blocks, " blocks, ", policy)});
  figures.AddRow({"workers", absl::StrCat(workers)});
  figures.AddRow({"requests", absl::StrFormat("%d in %.2f s", request_count, Seconds(duration))});
  figures.AddRow({"refused", absl::StrCat(refused_count)});
  figures.AddRow({"found", absl::StrFormat("%d of %d blocks, %.2f %%", hit_blocks, block_count,
                                           Percent(hit_blocks, block_count))});
  figures.AddRow({"published", absl::StrCat(published_blocks, " blocks")});
  figures.AddRow({"evicted", absl::StrCat(evicted_blocks, " blocks")});
  cli::Table times({"call", ">count", ">p50 us", ">p99 us"});
  for (const Calls& kind : calls) {
    times.AddRow({kind.name, absl::StrCat(kind.count),
                  absl::StrFormat("%.0f", Microseconds(kind.p50)),
                  absl::StrFormat("%.0f", Microseconds(kind.p99))});
  }
  return absl::StrCat(figures.ToString(), "\n", times.ToString());
}

std::string DriveReport::ToJson() const {
  Json::Value root;
  root["trace"] = trace_name;
  root["pool"] = pool;
  root["policy"] = policy;
  root["num_blocks"] = num_blocks;
  root["workers"] = workers;
  root["requests"] = Json::UInt64{request_count};
  root["refused"] = Json::UInt64{refused_count};
  root["seconds"] = Seconds(duration);
  root["blocks"] = Json::UInt64{block_count};
  root["hit_blocks"] = Json::UInt64{hit_blocks};
  root["hit_percent"] = Percent(hit_blocks, block_count);
  root["published_blocks"] = Json::UInt64{published_blocks};
  root["evicted_blocks"] = Json::UInt64{evicted_blocks};
  for (const Calls& kind : calls) {
    Json::Value& value = root["calls"][kind.name];
    value["count"] = Json::UInt64{kind.count};
    value["p50_us"] = Microseconds(kind.p50);
    value["p99_us"] = Microseconds(kind.p99);
  }
  return JsonText(root);
}

}  // namespace kvpool::replay
