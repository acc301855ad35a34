#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

#include "benchmark/benchmark.h"

#include "core/check.h"

namespace kvpool {

// What the thread has run. Others that the machine runs meanwhile do not count.
inline std::chrono::nanoseconds ThreadTime() {
  timespec time{};
  KVPOOL_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Runs `work` as an iteration of a benchmark with UseManualTime, by the thread's time.
template <typename Work>
void TimeIteration(benchmark::State& state, const Work& work) {
  const std::chrono::nanoseconds begin = ThreadTime();
  work();
  state.SetIterationTime(std::chrono::duration<double>(ThreadTime() - begin).count());
}

// Seconds a block, printed with its SI prefix: "13n" is 13 ns.
inline void CountBlocks(benchmark::State& state, uint32_t blocks_per_iteration) {
  state.counters["s_per_block"] = benchmark::Counter(
      static_cast<double>(blocks_per_iteration),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

}  // namespace kvpool
