// What choosing costs the learned policy, and what an eviction costs in all: processor time.

#include <chrono>
#include <cstdint>
#include <optional>

#include "benchmark/benchmark.h"

#include "core/check.h"
#include "core/ledger/eviction/leaf_lru.h"
#include "core/ledger/eviction/learned.h"

namespace kvpool {
namespace {

// A policy with as many candidates, of ages up to two hours in every bin, half of them seen again.
class Bench {
 public:
  Bench(EvictionPolicy& policy, uint32_t candidates, uint32_t tenants)
      : policy_(policy), candidates_(candidates), tenants_(tenants) {
    // From the last to the first: ages 7.2 s / n of the n-th, on a scale of 0.1 ms.
    for (uint32_t i = 0; i < candidates; ++i) {
      now_ = TimePoint(std::chrono::hours(3)) -
             std::chrono::milliseconds(7'200'000 / (1 + uint64_t{i} * 20'000 / candidates));
      Add(BlockId{i});
      if (i % 2 == 1) policy.UseBlock(BlockId{i}, now_);
    }
    now_ = TimePoint(std::chrono::hours(3));
    for (int i = 0; i < 200; ++i) policy.CountRequest(now_);
  }

  // A millisecond after the last.
  BlockId Choose(TenantSlot tenant) {
    now_ += std::chrono::milliseconds(1);
    const std::optional<BlockId> choice = policy_.Choose(tenant, now_);
    KVPOOL_CHECK(choice.has_value());
    return *choice;
  }
  // Its place is taken by a new block.
  void Evict(BlockId block) {
    policy_.ForgetEvicted(block, now_);
    Add(block);
  }
  uint32_t tenants() const { return tenants_; }

 private:
  void Add(BlockId block) {
    policy_.AddBlock(block, TenantSlot{ToIndex(block) % tenants_}, ++prefix_count_, now_);
    policy_.AddCandidate(block);
  }

  EvictionPolicy& policy_;
  const uint32_t candidates_;
  const uint32_t tenants_;
  uint64_t prefix_count_ = 0;
  TimePoint now_{};
};

void ChooseOfAll(benchmark::State& state) {
  const auto candidates = static_cast<uint32_t>(state.range(0));
  Learned policy(candidates);
  Bench bench(policy, candidates, /*tenants=*/1);
  for (auto unused : state) benchmark::DoNotOptimize(bench.Choose(kNoTenant));
}
BENCHMARK(ChooseOfAll)->ArgName("candidates")->Arg(40)->Arg(1'000)->Arg(100'000)->Arg(1'000'000);

void ChooseOfTenant(benchmark::State& state) {
  const auto candidates = static_cast<uint32_t>(state.range(0));
  Learned policy(candidates);
  Bench bench(policy, candidates, static_cast<uint32_t>(state.range(1)));
  uint32_t n = 0;
  for (auto unused : state) {
    benchmark::DoNotOptimize(bench.Choose(TenantSlot{n++ % bench.tenants()}));
  }
}
BENCHMARK(ChooseOfTenant)
    ->ArgNames({"candidates", "tenants"})
    ->Args({100'000, 10})
    ->Args({100'000, 1'000})
    ->Args({100'000, 10'000});

template <typename Policy>
void EvictAndAdd(benchmark::State& state, Policy& policy) {
  Bench bench(policy, static_cast<uint32_t>(state.range(0)), /*tenants=*/10);
  for (auto unused : state) bench.Evict(bench.Choose(kNoTenant));
}
void EvictAndAddLearned(benchmark::State& state) {
  Learned policy(static_cast<uint32_t>(state.range(0)));
  EvictAndAdd(state, policy);
}
void EvictAndAddLeafLru(benchmark::State& state) {
  LeafLru policy;
  EvictAndAdd(state, policy);
}
BENCHMARK(EvictAndAddLearned)->ArgName("candidates")->Arg(1'000)->Arg(100'000)->Arg(1'000'000);
BENCHMARK(EvictAndAddLeafLru)->ArgName("candidates")->Arg(1'000)->Arg(100'000)->Arg(1'000'000);

}  // namespace
}  // namespace kvpool

BENCHMARK_MAIN();
