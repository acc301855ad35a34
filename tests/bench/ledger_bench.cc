// The ledger alone: performance targets 6, 8 and 9.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "benchmark/benchmark.h"

#include "core/check.h"
#include "core/ledger/ledger.h"
#include "tests/bench/heap.h"
#include "tests/bench/thread_time.h"

namespace kvpool {
namespace {

constexpr uint32_t kBatch = 64;
constexpr absl::string_view kTenant = "bench";

SessionId IdOf(uint32_t n) {
  SessionId id;
  for (size_t i = 0; i < 4; ++i) id.bytes[i] = static_cast<uint8_t>(n >> (8 * i));
  id.bytes[15] = 1;
  return id;
}

// A ledger with sessions, and a time that goes on by a microsecond a call. The sessions are
// unattached, so that every call moves a deadline.
class Bench {
 public:
  Bench(uint32_t num_blocks, uint32_t num_sessions) : ledger_({.num_blocks = num_blocks}) {
    for (uint32_t i = 0; i < num_sessions; ++i) {
      const auto ttl = ledger_.OpenSession({.id = IdOf(i),
                                            .tenant = kTenant,
                                            .process = ProcessId{i + 1},
                                            .ttl = std::chrono::hours(1)},
                                           Now());
      KVPOOL_CHECK(ttl.ok());
      callers_.push_back({.session = IdOf(i), .tenant = kTenant});
    }
  }

  const Caller& caller(size_t n) const { return callers_[n % callers_.size()]; }
  Ledger& ledger() { return ledger_; }
  TimePoint Now() { return now_ += std::chrono::microseconds(1); }

  std::vector<BlockRef> Alloc(size_t n, uint32_t count) {
    auto outcome = ledger_.Alloc({.caller = caller(n), .count = count}, Now());
    KVPOOL_CHECK(outcome.ok() && outcome->pending == PendingId{});
    return std::move(outcome->answer.blocks);
  }
  void DecRef(size_t n, const std::vector<BlockRef>& blocks) {
    KVPOOL_CHECK(ledger_.DecRef({.caller = caller(n), .blocks = blocks}, Now()).ok());
  }
  void IncRef(size_t n, const std::vector<BlockRef>& blocks) {
    KVPOOL_CHECK(ledger_.IncRef({.caller = caller(n), .blocks = blocks}, Now()).ok());
  }

 private:
  Ledger ledger_;
  TimePoint now_{std::chrono::seconds(1)};
  std::vector<Caller> callers_;
};

// Target 6 and, over its arguments, 9: the batch freed last is the next one given.
void AllocDecRefHot(benchmark::State& state) {
  Bench bench(static_cast<uint32_t>(state.range(0)), static_cast<uint32_t>(state.range(1)));
  size_t n = 0;
  for (auto unused : state) {
    bench.DecRef(n, bench.Alloc(n, kBatch));
    ++n;
  }
  CountBlocks(state, kBatch);
}
BENCHMARK(AllocDecRefHot)
    ->ArgNames({"blocks", "sessions"})
    ->ArgsProduct({{1'000, 100'000, 10'000'000}, {1, 1'000}});

// Target 9, with the cache misses of a pool in use: half the pool is held, and the batch held
// longest is let go for each that is taken.
void AllocDecRefChurn(benchmark::State& state) {
  const auto num_blocks = static_cast<uint32_t>(state.range(0));
  Bench bench(num_blocks, static_cast<uint32_t>(state.range(1)));
  struct Held {
    size_t session;
    std::vector<BlockRef> blocks;
  };
  std::deque<Held> held;
  size_t n = 0;
  for (; (n + 1) * kBatch < num_blocks / 2; ++n) held.push_back({n, bench.Alloc(n, kBatch)});
  for (auto unused : state) {
    bench.DecRef(held.front().session, held.front().blocks);
    held.pop_front();
    held.push_back({n, bench.Alloc(n, kBatch)});
    ++n;
  }
  CountBlocks(state, kBatch);
}
BENCHMARK(AllocDecRefChurn)
    ->ArgNames({"blocks", "sessions"})
    ->ArgsProduct({{1'000, 100'000, 10'000'000}, {1, 1'000}});

// Target 9 for shared blocks: one more session takes references on, and lets go, a batch that all
// the other sessions hold too.
void IncRefDecRefShared(benchmark::State& state) {
  const auto num_sessions = static_cast<uint32_t>(state.range(1));
  Bench bench(static_cast<uint32_t>(state.range(0)), num_sessions + 1);
  const std::vector<BlockRef> blocks = bench.Alloc(0, kBatch);
  for (uint32_t i = 1; i < num_sessions; ++i) bench.IncRef(i, blocks);
  for (auto unused : state) {
    bench.IncRef(num_sessions, blocks);
    bench.DecRef(num_sessions, blocks);
  }
  CountBlocks(state, kBatch);
}
BENCHMARK(IncRefDecRefShared)
    ->ArgNames({"blocks", "sessions"})
    ->ArgsProduct({{1'000, 10'000'000}, {1, 1'000}});

// A single block, where what a call costs is not spread over a batch.
void AllocDecRefOne(benchmark::State& state) {
  Bench bench(static_cast<uint32_t>(state.range(0)), static_cast<uint32_t>(state.range(1)));
  size_t n = 0;
  for (auto unused : state) {
    bench.DecRef(n, bench.Alloc(n, 1));
    ++n;
  }
  CountBlocks(state, 1);
}
BENCHMARK(AllocDecRefOne)
    ->ArgNames({"blocks", "sessions"})
    ->ArgsProduct({{1'000, 10'000'000}, {1, 1'000}});

// Waiting calls: who they are, as the benchmarks' argument says.
enum Waiting : int64_t {
  kNobody,
  kOneSession,   // All of one session, whose guarantee is full.
  kAllSessions,  // Each of a session of its own, whose guarantee is full.
  kShort,        // Each of a session whose guarantee the pool has no blocks for.
};

constexpr uint32_t kWaitingCalls = 10'000;

// Makes kWaitingCalls calls wait in a pool whose every block is held.
void MakeWait(Bench& bench, Waiting who) {
  if (who == kNobody) return;
  const uint32_t sessions = who == kOneSession ? 1 : kWaitingCalls;
  std::vector<Caller> callers;
  std::vector<BlockRef> blocks;
  for (uint32_t i = 0; i < sessions; ++i) {
    const OpenSessionCall call = {.id = IdOf(1'000'000 + i),
                                  .tenant = kTenant,
                                  .ttl = std::chrono::hours(1),
                                  .guaranteed_blocks = 1};
    KVPOOL_CHECK(bench.ledger().OpenSession(call, bench.Now()).ok());
    callers.push_back({.session = call.id, .tenant = kTenant});
    const auto outcome = bench.ledger().Alloc({.caller = callers.back(), .count = 1}, bench.Now());
    KVPOOL_CHECK(outcome.ok());
    blocks.push_back(outcome->answer.blocks.front());
  }
  bench.Alloc(0, bench.ledger().counts().free_blocks);
  for (uint32_t i = 0; who == kShort && i < sessions; ++i) {
    // The first session keeps the block.
    const std::vector<BlockRef> block = {blocks[i]};
    bench.IncRef(0, block);
    KVPOOL_CHECK(bench.ledger().DecRef({.caller = callers[i], .blocks = block}, bench.Now()).ok());
  }
  for (uint32_t i = 0; i < kWaitingCalls; ++i) {
    const auto outcome = bench.ledger().Alloc(
        {.caller = callers[i % sessions], .count = 1, .wait = LedgerLimits{}.max_wait},
        bench.Now());
    KVPOOL_CHECK(outcome.ok() && outcome->pending != PendingId{});
  }
}

// Nanoseconds that an IncRef and a DecRef of one block take beside those who wait.
double MeasureBesideWaiting(Waiting who, uint32_t rounds) {
  Bench bench(/*num_blocks=*/kWaitingCalls + 100, /*num_sessions=*/1);
  const std::vector<BlockRef> block = bench.Alloc(0, 1);
  MakeWait(bench, who);
  const auto begin = ThreadTime();
  for (uint32_t i = 0; i < rounds; ++i) {
    bench.IncRef(0, block);
    bench.DecRef(0, block);
  }
  const std::chrono::duration<double, std::nano> taken = ThreadTime() - begin;
  return taken.count() / rounds;
}

// Target 9, for calls that wait: what one operation costs beside them, over what it costs alone.
void BesideWaitingCalls(benchmark::State& state) {
  constexpr uint32_t kRounds = 20'000;
  const auto who = static_cast<Waiting>(state.range(0));
  std::vector<double> ratios;
  for (auto unused : state) {
    const double alone = MeasureBesideWaiting(kNobody, kRounds);
    ratios.push_back(MeasureBesideWaiting(who, kRounds) / alone);
  }
  std::ranges::sort(ratios);
  state.counters["ratio"] = ratios[ratios.size() / 2];
}
BENCHMARK(BesideWaitingCalls)
    ->ArgName("waiting")
    ->DenseRange(kOneSession, kShort)
    ->Iterations(9)
    ->Unit(benchmark::kMillisecond);

// Target 8: the time until a pool is open, its first block given out, and closed again.
void OpenPool(benchmark::State& state) {
  for (auto unused : state) {
    Bench bench(static_cast<uint32_t>(state.range(0)), /*num_sessions=*/1);
    benchmark::DoNotOptimize(bench.Alloc(0, 1));
  }
}
BENCHMARK(OpenPool)->ArgName("blocks")->Arg(10'000'000)->Unit(benchmark::kMillisecond);

// Target 8: heap bytes a block, each held once by one session. What the bench itself remembers is
// not counted.
void MemoryPerBlock(benchmark::State& state) {
  const auto num_blocks = static_cast<uint32_t>(state.range(0));
  for (auto unused : state) {
    const size_t before = HeapBytes();
    Bench bench(num_blocks, /*num_sessions=*/1);
    for (uint32_t left = num_blocks; left > 0;) {
      const uint32_t count = std::min(left, LedgerLimits{}.max_blocks_per_call);
      bench.Alloc(0, count);
      left -= count;
    }
    KVPOOL_CHECK(bench.ledger().counts().held_blocks == num_blocks);
    state.counters["bytes_per_block"] =
        static_cast<double>(HeapBytes() - before) / static_cast<double>(num_blocks);
  }
}
BENCHMARK(MemoryPerBlock)
    ->ArgName("blocks")
    ->Arg(100'000)
    ->Arg(10'000'000)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

// What a session's end costs, a reference: a slice after the other.
void EndSession(benchmark::State& state) {
  const auto count = static_cast<uint32_t>(state.range(0));
  for (auto unused : state) {
    state.PauseTiming();
    auto bench = std::make_unique<Bench>(count, /*num_sessions=*/1);
    for (uint32_t left = count; left > 0;) {
      const uint32_t batch = std::min(left, LedgerLimits{}.max_blocks_per_call);
      bench->Alloc(0, batch);
      left -= batch;
    }
    state.ResumeTiming();
    KVPOOL_CHECK(bench->ledger().CloseSession(bench->caller(0), bench->Now()).ok());
    while (bench->ledger().Reclaim(LedgerLimits{}.reclaim_slice, bench->Now())) {
    }
    state.PauseTiming();
    KVPOOL_CHECK(bench->ledger().counts().free_blocks == count);
    bench.reset();
    state.ResumeTiming();
  }
  CountBlocks(state, count);
}
BENCHMARK(EndSession)->ArgName("references")->Arg(1'000'000)->Unit(benchmark::kMillisecond);

// What ends in LongestCallOfEnd, with all that it holds.
enum Ending : int64_t {
  kClosed,        // A session that vouches.
  kProcessesEnd,  // A session that leaves claims, and then its process.
  kMemberEnds,    // A session that joined another, which lets blocks go meanwhile.
};

// Makes calls, and keeps the longest.
class LongestCall {
 public:
  template <typename Call>
  void Time(const Call& call) {
    const auto begin = ThreadTime();
    call();
    longest_ = std::max(longest_, ThreadTime() - begin);
  }
  double microseconds() const {
    return std::chrono::duration<double, std::micro>(longest_).count();
  }

 private:
  std::chrono::nanoseconds longest_{};
};

// Ends a session that holds `count` blocks; returns the longest single call of all that follow.
double TimeEnd(Ending ending, uint32_t count) {
  Bench bench(count, /*num_sessions=*/1);
  Ledger& ledger = bench.ledger();
  std::vector<BlockRef> last;
  for (uint32_t left = count; left > 0; left -= static_cast<uint32_t>(last.size())) {
    last = bench.Alloc(0, std::min(left, LedgerLimits{}.reclaim_slice));
  }
  LongestCall longest;
  const auto reclaim = [&] {
    for (bool has_more = true; has_more;) {
      longest.Time([&] { has_more = ledger.Reclaim(LedgerLimits{}.reclaim_slice, bench.Now()); });
    }
  };
  const SessionId session = bench.caller(0).session;
  if (ending == kClosed) {
    longest.Time([&] { KVPOOL_CHECK(ledger.CloseSession(bench.caller(0), bench.Now()).ok()); });
  } else if (ending == kProcessesEnd) {
    longest.Time([&] { ledger.Detach(session, bench.Now()); });
    reclaim();
    longest.Time([&] { ledger.ProcessGone(ProcessId{1}, bench.Now()); });
  } else {
    const OpenSessionCall join = {
        .id = IdOf(7), .tenant = kTenant, .process = ProcessId{7}, .join = session};
    KVPOOL_CHECK(ledger.OpenSession(join, bench.Now()).ok());
    longest.Time([&] { ledger.Detach(join.id, bench.Now()); });
    longest.Time([&] { bench.DecRef(0, last); });
    reclaim();
    longest.Time([&] { ledger.ProcessGone(ProcessId{7}, bench.Now()); });
  }
  reclaim();
  return longest.microseconds();
}

// The longest single call while a session ends, over that of one which holds a slice's worth: how
// long others wait at most for their turn.
void LongestCallOfEnd(benchmark::State& state) {
  const auto ending = static_cast<Ending>(state.range(0));
  std::vector<double> longest;
  std::vector<double> ratios;
  for (auto unused : state) {
    const double slice = TimeEnd(ending, LedgerLimits{}.reclaim_slice);
    longest.push_back(TimeEnd(ending, 1'000'000));
    ratios.push_back(longest.back() / slice);
  }
  std::ranges::sort(longest);
  std::ranges::sort(ratios);
  state.counters["longest_us"] = longest[longest.size() / 2];
  state.counters["ratio"] = ratios[ratios.size() / 2];
}
BENCHMARK(LongestCallOfEnd)
    ->ArgName("ending")
    ->DenseRange(kClosed, kMemberEnds)
    ->Iterations(7)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvpool

BENCHMARK_MAIN();
