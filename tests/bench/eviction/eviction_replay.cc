// Replays request traces against the eviction policies, and against the optimum: CSV on stdout.
//
//   eviction_replay [--small_blocks] [--done=PERCENT] TRACE CAPACITY[,CAPACITY...]...
//
// hit_percent: of the blocks accessed, those found. cpu_seconds: processor time of the whole
// replay.
// --done hints as done that share of the requests whose last block never comes back. A capacity
// may be "infinite".

#include <time.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

#include "client/cli/replay/cache_simulation.h"
#include "client/cli/replay/optimum.h"
#include "client/cli/replay/trace.h"
#include "core/check.h"
#include "core/ledger/eviction/leaf_lru.h"
#include "core/ledger/eviction/learned.h"
#include "tests/support/random.h"

namespace kvpool::replay {
namespace {

struct Policy {
  const char* name;
  std::function<std::unique_ptr<EvictionPolicy>(size_t capacity)> make;
};

const std::vector<Policy>& Policies() {
  static const std::vector<Policy> kPolicies = {
      {"leaf_lru", [](size_t) { return std::make_unique<LeafLru>(); }},
      {"learned",
       [](size_t capacity) { return std::make_unique<Learned>(static_cast<uint32_t>(capacity)); }},
  };
  return kPolicies;
}

std::chrono::nanoseconds ThreadTime() {
  timespec time{};
  KVPOOL_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Which requests' last block no later request uses, and of them a random share of `percent`.
std::vector<bool> ChooseDone(const Trace& trace, uint32_t percent) {
  std::vector<bool> is_done(trace.requests().size(), false);
  absl::flat_hash_map<uint64_t, bool> is_used_later;
  test::Random random(test::Seed());
  for (size_t i = trace.requests().size(); i-- > 0;) {
    const auto blocks = trace.blocks(trace.requests()[i]);
    if (blocks.empty()) continue;
    is_done[i] = !is_used_later.contains(blocks.back()) && random.Below(100) < percent;
    for (const uint64_t block : blocks) is_used_later[block] = true;
  }
  return is_done;
}

void Replay(const char* path, const Trace& trace, const std::vector<bool>& is_done,
            const Policy& policy, size_t capacity) {
  const std::unique_ptr<EvictionPolicy> eviction = policy.make(capacity);
  CacheSimulation cache(*eviction, capacity);
  size_t hits = 0;
  size_t evicted = 0;
  const auto begin = ThreadTime();
  for (size_t i = 0; i < trace.requests().size(); ++i) {
    const TraceRequest& request = trace.requests()[i];
    const auto outcome = cache.Run(trace.blocks(request), TimePoint(request.time), is_done[i]);
    hits += outcome.hit_blocks;
    evicted += outcome.evicted_blocks;
  }
  const std::chrono::duration<double> taken = ThreadTime() - begin;
  std::printf("%s,%s,%zu,%.2f,%zu,%.2f\n", path, policy.name, capacity,
              100.0 * static_cast<double>(hits) / static_cast<double>(trace.block_count()), evicted,
              taken.count());
  std::fflush(stdout);
}

int Main(const std::vector<std::string>& arguments) {
  TraceFormat format = kMooncakeFormat;
  uint32_t done_percent = 0;
  std::printf("trace,policy,capacity,hit_percent,evicted_blocks,cpu_seconds\n");
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == "--small_blocks") {
      format = kSmallBlockFormat;
      continue;
    }
    if (absl::StartsWith(arguments[i], "--done=")) {
      KVPOOL_CHECK(absl::SimpleAtoi(arguments[i].substr(7), &done_percent));
      continue;
    }
    KVPOOL_CHECK(i + 1 < arguments.size());
    const std::string& path = arguments[i];
    const auto trace = Trace::Read(path, format);
    if (!trace.ok()) {
      std::fprintf(stderr, "%s\n", trace.status().ToString().c_str());
      return 1;
    }
    const char* name = path.c_str() + (path.rfind('/') + 1);
    const std::vector<bool> is_done = ChooseDone(*trace, done_percent);
    const Optimum optimum(*trace);
    for (const auto& text : absl::StrSplit(arguments[++i], ',')) {
      size_t capacity = std::numeric_limits<uint32_t>::max();
      KVPOOL_CHECK(text == "infinite" || absl::SimpleAtoi(text, &capacity));
      for (const Policy& policy : Policies()) Replay(name, *trace, is_done, policy, capacity);
      std::printf("%s,optimum,%zu,%.2f,,\n", name, capacity,
                  100.0 * static_cast<double>(optimum.CountHits(capacity)) /
                      static_cast<double>(trace->block_count()));
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace kvpool::replay

int main(int argc, char** argv) { return kvpool::replay::Main({argv, argv + argc}); }
