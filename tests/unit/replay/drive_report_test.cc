#include "client/cli/replay/drive_report.h"

#include <chrono>
#include <sstream>
#include <vector>

#include <json/json.h>

#include "tests/support/catch.h"

namespace kvpool::replay {
namespace {

// 100 requests whose calls took 1 to 100 us, the fiftieth refused, and one that did not run.
DriveReport MakeReport() {
  std::vector<RequestResult> results(101);
  for (size_t i = 0; i < 100; ++i) {
    RequestResult& result = results[i];
    result.state = RequestResult::State::kServed;
    result.acquire_ns = 1'000 * static_cast<int64_t>(100 - i);
    result.hit_blocks = 2;
    if (i % 2 == 0) {
      result.publish_ns = 5'000;
      result.published_blocks = 3;
    }
  }
  results[49] = {.acquire_ns = 51'000, .state = RequestResult::State::kRefused};
  DriveReport report{.trace_name = "t.jsonl",
                     .pool = "p",
                     .policy = "learned",
                     .num_blocks = 50,
                     .workers = 4,
                     .request_count = 101,
                     .block_count = 396,
                     .duration = std::chrono::milliseconds(1'500),
                     .evicted_blocks = 7};
  report.CountResults(results);
  return report;
}

}  // namespace

TEST_CASE("A report counts what the results say, and what calls took at the median and at p99") {
  CHECK(MakeReport().ToTable() ==
        "trace      t.jsonl\n"
        "pool       p, 50 blocks, learned\n"
        "workers    4\n"
        "requests   101 in 1.50 s\n"
        "refused    1\n"
        "found      198 of 396 blocks, 50.00 %\n"
        "published  150 blocks\n"
        "evicted    7 blocks\n"
        "\n"
        "call     count  p50 us  p99 us\n"
        "acquire    100      50      99\n"
        "publish     50       5       5\n"
        "release      0       0       0\n");
}

TEST_CASE("A report's JSON has every figure") {
  Json::Value json;
  std::istringstream(MakeReport().ToJson()) >> json;
  CHECK(json["trace"].asString() == "t.jsonl");
  CHECK(json["policy"].asString() == "learned");
  CHECK(json["requests"].asUInt() == 101);
  CHECK(json["refused"].asUInt() == 1);
  CHECK(json["hit_blocks"].asUInt() == 198);
  CHECK(json["hit_percent"].asDouble() == 50);
  CHECK(json["published_blocks"].asUInt() == 150);
  CHECK(json["evicted_blocks"].asUInt() == 7);
  CHECK(json["seconds"].asDouble() == 1.5);
  CHECK(json["calls"]["acquire"]["p99_us"].asDouble() == 99);
  CHECK(json["calls"]["release"]["count"].asUInt() == 0);
}

}  // namespace kvpool::replay
