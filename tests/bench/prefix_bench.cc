// The prefix cache's keys and index alone: parts of performance targets 7 and 9.

#include <time.h>

#include <chrono>
#include <cstdint>
#include <numeric>
#include <vector>

#include "benchmark/benchmark.h"
#include <openssl/evp.h>

#include "core/check.h"
#include "core/ledger/prefix/prefix_hasher.h"
#include "core/ledger/prefix/prefix_index.h"

namespace kvpool {
namespace {

constexpr uint32_t kBlocks = 256;  // Of a prefix.

// What the thread has run. Others that the machine runs meanwhile do not count.
std::chrono::nanoseconds ThreadTime() {
  timespec time{};
  KVPOOL_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Runs `work` as an iteration, by the thread's time.
template <typename Work>
void Time(benchmark::State& state, const Work& work) {
  const std::chrono::nanoseconds begin = ThreadTime();
  work();
  state.SetIterationTime(std::chrono::duration<double>(ThreadTime() - begin).count());
}

// Seconds a block, printed with its SI prefix: "13n" is 13 ns.
void CountBlocks(benchmark::State& state) {
  state.counters["s_per_block"] = benchmark::Counter(
      kBlocks, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// The limit of target 7: chained SHA-256 alone, of messages as long as those of blocks, by the
// fastest calls of libcrypto's that are not deprecated.
void ChainedSha256(benchmark::State& state) {
  const size_t size = 48 + static_cast<size_t>(state.range(0)) * sizeof(uint32_t);
  std::vector<uint8_t> message(size);
  EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  EVP_MD_CTX* const context = EVP_MD_CTX_new();
  for (auto unused : state) {
    Time(state, [&] {
      for (uint32_t i = 0; i < kBlocks; ++i) {
        KVPOOL_CHECK(EVP_DigestInit_ex2(context, sha256, nullptr) == 1);
        KVPOOL_CHECK(EVP_DigestUpdate(context, message.data(), size) == 1);
        KVPOOL_CHECK(EVP_DigestFinal_ex(context, message.data(), nullptr) == 1);
      }
    });
  }
  EVP_MD_CTX_free(context);
  EVP_MD_free(sha256);
  CountBlocks(state);
}
BENCHMARK(ChainedSha256)->ArgName("block_size")->Arg(16)->Arg(512)->UseManualTime();

void HashTokens(benchmark::State& state) {
  const auto block_size = static_cast<uint32_t>(state.range(0));
  std::vector<uint32_t> tokens(size_t{kBlocks} * block_size);
  std::iota(tokens.begin(), tokens.end(), 0U);
  const Prefix prefix = {.space = {.fingerprint = "0123456789abcdef0123456789abcdef",
                                   .tenant = "bench",
                                   .model_id = "model"},
                         .tokens = tokens};
  const PrefixHasher hasher;
  for (auto unused : state) {
    Time(state, [&] { benchmark::DoNotOptimize(hasher.Hash(prefix, block_size)); });
  }
  CountBlocks(state);
}
BENCHMARK(HashTokens)->ArgName("block_size")->Arg(16)->Arg(512)->UseManualTime();

// An index full of chains of kBlocks, whose keys are made again when they are asked for.
class FullIndex {
 public:
  explicit FullIndex(uint32_t num_blocks) : chain_count_(num_blocks / kBlocks) {
    for (uint32_t chain = 0; chain < chain_count_; ++chain) Insert(chain, KeysOf(chain));
  }

  std::vector<PrefixKey> KeysOf(uint32_t chain) const {
    const std::vector<uint32_t> tokens(kBlocks, chain);
    return hasher_.Hash({.tokens = tokens}, /*block_size=*/1).blocks;
  }
  void Insert(uint32_t chain, const std::vector<PrefixKey>& keys) {
    EntrySlot parent = kNoEntry;
    for (uint32_t i = 0; i < kBlocks; ++i) {
      const BlockId block{chain * kBlocks + i};
      parent = (i == 0 ? index_.InsertFirst(keys[i], block, {.tenant = TenantSlot{0}})
                       : index_.Insert(keys[i], block, parent))
                   .entry;
    }
  }
  void Evict(uint32_t chain) {
    for (uint32_t i = kBlocks; i > 0; --i) {
      const BlockId block{chain * kBlocks + i - 1};
      index_.Remove(index_.EntryOf(block));
      index_.Forget(block);
    }
  }
  // Any chain: each time another, far from the last.
  uint32_t Next() { return static_cast<uint32_t>((next_ += 0x9E3779B9U) % chain_count_); }
  PrefixIndex& index() { return index_; }

 private:
  const PrefixHasher hasher_;
  const uint32_t chain_count_;
  PrefixIndex index_;
  uint64_t next_ = 0;
};

void FindRun(benchmark::State& state) {
  FullIndex full(static_cast<uint32_t>(state.range(0)));
  std::vector<EntrySlot> found;
  for (auto unused : state) {
    const std::vector<PrefixKey> keys = full.KeysOf(full.Next());
    found.clear();
    Time(state, [&] { full.index().FindRun(keys, found); });
    KVPOOL_CHECK(found.size() == kBlocks);
  }
  CountBlocks(state);
}

// A chain goes, tail first, and comes back.
void Evict(benchmark::State& state) {
  FullIndex full(static_cast<uint32_t>(state.range(0)));
  for (auto unused : state) {
    const uint32_t chain = full.Next();
    Time(state, [&] { full.Evict(chain); });
    full.Insert(chain, full.KeysOf(chain));
  }
  CountBlocks(state);
}

void Insert(benchmark::State& state) {
  FullIndex full(static_cast<uint32_t>(state.range(0)));
  for (auto unused : state) {
    const uint32_t chain = full.Next();
    const std::vector<PrefixKey> keys = full.KeysOf(chain);
    full.Evict(chain);
    // What Evict left in the processor's cache would be found there.
    std::vector<EntrySlot> found;
    for (int i = 0; i < 200; ++i) full.index().FindRun(full.KeysOf(full.Next()), found);
    Time(state, [&] { full.Insert(chain, keys); });
  }
  CountBlocks(state);
}

// So many iterations, as an index of 10^7 takes seconds to be made anew to find out how many.
void OnIndexes(benchmark::internal::Benchmark* bench) {
  bench->ArgName("blocks")->Arg(1'000)->Arg(100'000)->Arg(10'000'000);
  bench->Iterations(300)->UseManualTime();
}
BENCHMARK(FindRun)->Apply(OnIndexes);
BENCHMARK(Evict)->Apply(OnIndexes);
BENCHMARK(Insert)->Apply(OnIndexes);

}  // namespace
}  // namespace kvpool

BENCHMARK_MAIN();
