#include "client/cli/replay/simulation_run.h"

#include <sstream>
#include <string>
#include <vector>

#include <json/json.h>

#include "tests/support/catch.h"

namespace kvpool::replay {
namespace {

// Five requests, a second apart. In a cache of three blocks, two more while a request runs, the
// second finds 1, and the last nothing; had one known, it would find 1.
Trace MakeTrace() {
  Trace trace;
  const std::vector<std::vector<uint64_t>> requests = {{1, 2}, {1, 3}, {}, {4, 5}, {6, 7}, {1}};
  for (size_t i = 0; i < requests.size(); ++i) {
    trace.Add({.time = std::chrono::seconds(i), .input_tokens = 512 * requests[i].size()},
              requests[i]);
  }
  return trace;
}

SimulationRun Run(const Trace& trace, std::vector<std::optional<uint32_t>> capacities) {
  ReplayArguments arguments{.format = kMooncakeFormat};
  arguments.simulation = {.capacities = std::move(capacities),
                          .policies = {EvictionPolicyName::kLeafLru}};
  auto run = SimulationRun::Make("/some/where/a,b.jsonl", trace, arguments);
  REQUIRE(run.ok());
  return *std::move(run);
}

}  // namespace

TEST_CASE("A run has a point for each policy and the optimum at each capacity") {
  const SimulationRun run = Run(MakeTrace(), {3, std::nullopt});
  CHECK(run.trace_name == "a,b.jsonl");
  CHECK(run.request_count == 6);
  CHECK(run.block_count == 9);
  CHECK(run.unique_count == 7);
  REQUIRE(run.points.size() == 4);
  CHECK(run.points[0].policy == "leaf_lru");
  CHECK(run.points[0].capacity == 3U);
  CHECK(run.points[0].hit_blocks == 1);
  CHECK(run.points[0].evicted_blocks == 5U);
  CHECK(run.points[1].policy == "optimum");
  CHECK(run.points[1].hit_blocks == 2);
  CHECK_FALSE(run.points[1].evicted_blocks.has_value());
  CHECK_FALSE(run.points[2].capacity.has_value());
  CHECK(run.points[2].hit_blocks == 2);
  CHECK(run.points[2].evicted_blocks == 0U);
  CHECK(run.points[3].hit_blocks == 2);
}

TEST_CASE("A run is shown as a table, as CSV and as JSON") {
  const SimulationRun run = Run(MakeTrace(), {3, std::nullopt});
  CHECK(run.ToTable() ==
        "a,b.jsonl: 6 requests, 9 blocks, 7 of them different\n"
        "blocks found, in percent:\n"
        "capacity  leaf_lru  optimum\n"
        "       3     11.11    22.22\n"
        "infinite     22.22    22.22\n");
  CHECK(run.ToCsv() ==
        "trace,policy,capacity,hit_percent,hit_blocks,blocks,evicted_blocks\n"
        "\"a,b.jsonl\",leaf_lru,3,11.11,1,9,5\n"
        "\"a,b.jsonl\",optimum,3,22.22,2,9,\n"
        "\"a,b.jsonl\",leaf_lru,infinite,22.22,2,9,0\n"
        "\"a,b.jsonl\",optimum,infinite,22.22,2,9,\n");
  Json::Value json;
  std::istringstream(run.ToJson()) >> json;
  CHECK(json["blocks"].asUInt64() == 9);
  CHECK(json["points"].size() == 4);
  CHECK(json["points"][0]["capacity"].asUInt() == 3);
  CHECK(json["points"][0]["hit_percent"].asDouble() == 11.111);
  CHECK(json["points"][0]["evicted_blocks"].asUInt() == 5);
  CHECK_FALSE(json["points"][3].isMember("capacity"));
}

TEST_CASE(
    "A run over a trace without requests, or without a full block, finds nothing of nothing") {
  CHECK(Run(Trace(), {0, 7}).ToTable() == ("a,b.jsonl: 0 requests, 0 blocks, 0 of them different\n"
                                           "blocks found, in percent:\n"
                                           "capacity  leaf_lru  optimum\n"
                                           "       0      0.00     0.00\n"
                                           "       7      0.00     0.00\n"));
  Trace trace;
  trace.Add({.input_tokens = 511}, {});
  CHECK(Run(trace, {std::nullopt}).points[0].hit_blocks == 0);
}

}  // namespace kvpool::replay
