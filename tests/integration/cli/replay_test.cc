// kvpoolctl replay against a real daemon, from worker processes.
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <json/json.h>

#include "tests/integration/support/node.h"
#include "tests/integration/support/worker.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/random.h"
#include "tests/support/temp_dir.h"

namespace kvpool::test {
namespace {

struct Answer {
  int code = 0;
  std::string out;
  std::string err;
};

// A trace in a file of its own, and kvpoolctl, which replays it.
class Replay {
 public:
  // A request of full blocks, and an output that takes a block more.
  void Add(int64_t time_ms, const std::vector<uint64_t>& blocks) {
    std::ofstream(path(), std::ios::app)
        << R"({"timestamp": )" << time_ms << R"(, "input_length": )" << 512 * blocks.size()
        << R"(, "output_length": 9, "hash_ids": [)" << absl::StrJoin(blocks, ", ") << "]}\n";
  }
  void AddText(const std::string& text) { std::ofstream(path(), std::ios::app) << text; }

  Answer Run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {KVPOOL_KVPOOLCTL, "replay", path(), "--json"});
    ChildProcess process({.arguments = std::move(arguments),
                          .environment = {},
                          .stderr_path = directory_.File("stderr"),
                          .uid = std::nullopt});
    Answer answer;
    answer.out = process.ReadAll();
    answer.code = process.Wait();
    std::stringstream text;
    text << std::ifstream(directory_.File("stderr")).rdbuf();
    answer.err = text.str();
    return answer;
  }
  // What it prints, where it succeeds.
  Json::Value Report(std::vector<std::string> arguments) const {
    const Answer answer = Run(std::move(arguments));
    CAPTURE(answer.err);
    REQUIRE(answer.code == 0);
    Json::Value report;
    std::istringstream(answer.out) >> report;
    return report;
  }
  uint64_t SimulatedHits(uint32_t capacity) const {
    const Json::Value report =
        Report({"--simulate", absl::StrCat("--capacity=", capacity), "--policy=leaf_lru"});
    return report["points"][0]["hit_blocks"].asUInt64();
  }

 private:
  std::string path() const { return directory_.File("trace.jsonl"); }

  TempDir directory_;
};

// Cached blocks are forgotten first.
void CheckAllIsBack(Node& node) {
  CHECK(Said(node.eyes().ResetPrefixes("p")) == "OK");
  node.CheckAllIsBack();
}

// A daemon with a pool "p" under leaf_lru.
Node MakeNode(uint32_t num_blocks) {
  return Node({.pools_json = OnePool(num_blocks, R"(, "eviction_policy": "leaf_lru")")});
}

TEST_CASE("kvpoolctl replay from three workers finds what a count by hand and a simulation do") {
  Node node = MakeNode(/*num_blocks=*/4 + 3 * 5);
  Replay replay;
  // Four blocks stay cached. One after the other, whoever's turn it is.
  replay.Add(0, {1, 2, 3});         // 0 found.
  replay.Add(500, {1, 2, 4});       // 2; 1 2 3 4 are cached.
  replay.Add(1'000, {1, 2, 3});     // 3.
  replay.Add(1'500, {5, 6});        // 0; 4 goes, and 3.
  replay.Add(2'000, {1, 2, 4, 7});  // 2; 6 goes, then 5.
  replay.Add(2'500, {5});           // 0; 7 goes.
  const Json::Value report = replay.Report({"--socket=" + node.daemon().worker_socket(), "--pool=p",
                                            "--workers=3", "--speed=1", "--capacity=4"});
  CHECK(report["hit_blocks"].asUInt64() == 7);
  CHECK(report["blocks"].asUInt64() == 16);
  CHECK(report["published_blocks"].asUInt64() == 9);
  CHECK(report["evicted_blocks"].asUInt64() == 5);
  CHECK(report["refused"].asUInt64() == 0);
  CHECK(report["calls"]["acquire"]["count"].asUInt() == 6);
  CHECK(report["calls"]["publish"]["count"].asUInt() == 5);
  CHECK(report["calls"]["release"]["count"].asUInt() == 6);
  CHECK(report["policy"].asString() == "leaf_lru");
  CHECK(replay.SimulatedHits(4) == 7);
  CheckAllIsBack(node);
}

TEST_CASE("kvpoolctl replay from one worker at full speed does exactly what a simulation does") {
  Node node = MakeNode(/*num_blocks=*/20 + 10);
  Replay replay;
  Random random(Seed());
  for (int i = 0; i < 100; ++i) {
    std::vector<uint64_t> blocks = {random.Below(6)};
    while (blocks.size() < 9 && !random.OneIn(4)) blocks.push_back(10 + random.Below(2));
    replay.Add(i, blocks);
  }
  const Json::Value report =
      replay.Report({"--socket=" + node.daemon().worker_socket(), "--pool=p", "--capacity=20"});
  CAPTURE(Seed());
  CHECK(report["hit_blocks"].asUInt64() > 0);
  CHECK(report["hit_blocks"].asUInt64() == replay.SimulatedHits(20));
  CHECK(report["refused"].asUInt64() == 0);
  CheckAllIsBack(node);
}

TEST_CASE("kvpoolctl replay counts requests that the pool has no room for") {
  Node node = MakeNode(/*num_blocks=*/8);
  Worker worker(node.daemon().worker_socket(), "p");
  REQUIRE(absl::StartsWith(worker.Ask("alloc 5"), "ok "));
  Replay replay;
  replay.Add(0, {1, 2});
  replay.Add(1, {1, 2, 3});
  replay.Add(2, {1, 2});
  const Json::Value report =
      replay.Report({"--socket=" + node.daemon().worker_socket(), "--pool=p"});
  CHECK(report["refused"].asUInt64() == 1);
  CHECK(report["hit_blocks"].asUInt64() == 2);
  CHECK(worker.Leave() == "ok");
  CheckAllIsBack(node);
}

TEST_CASE("kvpoolctl replay says why it cannot begin") {
  Node node = MakeNode(/*num_blocks=*/8);
  Replay replay;
  replay.Add(0, {1, 2, 3, 4});
  const std::string socket = "--socket=" + node.daemon().worker_socket();
  const auto refused = [&](std::vector<std::string> arguments, int code, const std::string& why) {
    const Answer answer = replay.Run(std::move(arguments));
    CAPTURE(answer.err, answer.out);
    CHECK(answer.code == code);
    CHECK(answer.out.empty());
    CHECK(absl::StrContains(answer.err, why));
  };
  // Whichever worker fails first says so.
  refused({socket, "--pool=nowhere", "--workers=2"}, 1, ": there is no pool 'nowhere'");
  refused({socket, "--pool=p", "--workers=2", "--capacity=2"}, 1,
          "the longest request takes 5 blocks; of the pool's 8, 2 cached, a worker has 3");
  refused({"--socket=unix:/nowhere/s", "--pool=p", "--timeout=1s"}, 3, "worker 0: ");
  refused({"--pool="}, 2, "replay needs --pool");
  replay.AddText("{\"timestamp\": 7}\n");
  refused({socket, "--pool=p"}, 1, ":2: input_length is missing");
  CheckAllIsBack(node);
}

TEST_CASE("kvpoolctl replay of an empty trace makes no call") {
  Node node = MakeNode(/*num_blocks=*/8);
  Replay replay;
  replay.AddText("");
  const Json::Value report =
      replay.Report({"--socket=" + node.daemon().worker_socket(), "--pool=p", "--workers=2"});
  CHECK(report["requests"].asUInt64() == 0);
  CHECK(report["hit_percent"].asDouble() == 0);
  CHECK(report["calls"]["acquire"]["count"].asUInt() == 0);
  CheckAllIsBack(node);
}

TEST_CASE("kvpoolctl replay names a trace whose xz data ends early") {
  Replay replay;
  replay.AddText(
      std::string("\xFD"
                  "7zXZ\0\0\4",
                  8));
  const Answer answer = replay.Run({"--simulate", "--capacity=1"});
  CHECK(answer.code == 1);
  CHECK(absl::StrContains(answer.err, "trace.jsonl:1: the xz data ends early"));
}

}  // namespace
}  // namespace kvpool::test
