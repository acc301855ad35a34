// The prefix cache, in the ledger alone: performance targets 7, 8 and 9.

#include <bit>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "benchmark/benchmark.h"
#include <openssl/evp.h>

#include "core/check.h"
#include "core/ledger/ledger.h"
#include "core/ledger/prefix/prefix_hasher.h"
#include "tests/bench/heap.h"
#include "tests/bench/thread_time.h"

namespace kvpool {
namespace {

constexpr uint32_t kBlocks = 256;  // Of a prefix.
constexpr uint32_t kBlockSize = 16;

// The limit of target 7: chained SHA-256 alone, of messages as long as those of blocks, by the
// fastest calls of libcrypto's that are not deprecated.
void ChainedSha256(benchmark::State& state) {
  const size_t size = 48 + static_cast<size_t>(state.range(0)) * sizeof(uint32_t);
  std::vector<uint8_t> message(size);
  EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  EVP_MD_CTX* const context = EVP_MD_CTX_new();
  for (auto unused : state) {
    TimeIteration(state, [&] {
      for (uint32_t i = 0; i < kBlocks; ++i) {
        KVPOOL_CHECK(EVP_DigestInit_ex2(context, sha256, nullptr) == 1);
        KVPOOL_CHECK(EVP_DigestUpdate(context, message.data(), size) == 1);
        KVPOOL_CHECK(EVP_DigestFinal_ex(context, message.data(), nullptr) == 1);
      }
    });
  }
  EVP_MD_CTX_free(context);
  EVP_MD_free(sha256);
  CountBlocks(state, kBlocks);
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
    TimeIteration(state, [&] { benchmark::DoNotOptimize(hasher.Hash(prefix, block_size)); });
  }
  CountBlocks(state, kBlocks);
}
BENCHMARK(HashTokens)->ArgName("block_size")->Arg(16)->Arg(512)->UseManualTime();

// A ledger whose blocks are all cached, in chains of kBlocks of kBlockSize tokens, whose tokens are
// made again when they are asked for.
class FullCache {
 public:
  explicit FullCache(uint32_t num_blocks)
      : chain_count_(num_blocks / kBlocks), ledger_({.num_blocks = chain_count_ * kBlocks}) {
    KVPOOL_CHECK(ledger_
                     .OpenSession({.id = caller_.session,
                                   .tenant = caller_.tenant,
                                   .model_id = kModel,
                                   .process = ProcessId{1},
                                   .ttl = std::chrono::hours(1)},
                                  Now())
                     .ok());
    for (uint32_t chain = 0; chain < chain_count_; ++chain) {
      const std::vector<BlockRef> blocks = Alloc();
      Publish(KeysOf(TokensOf(chain)), blocks);
      DecRef(blocks);
    }
    KVPOOL_CHECK(ledger_.counts().cached_blocks == chain_count_ * kBlocks);
  }

  static std::vector<uint32_t> TokensOf(uint32_t chain, uint32_t blocks = kBlocks) {
    return std::vector<uint32_t>(size_t{blocks} * kBlockSize, chain);
  }
  PrefixKeys KeysOf(const std::vector<uint32_t>& tokens) const {
    return hasher_.Hash({.space = {.fingerprint = "0123456789abcdef0123456789abcdef",
                                   .tenant = caller_.tenant,
                                   .model_id = kModel},
                         .tokens = tokens},
                        kBlockSize);
  }
  // All of it is found.
  std::vector<BlockRef> Acquire(const PrefixKeys& keys) {
    auto outcome = ledger_.Alloc(
        {.caller = caller_, .count = kBlocks, .prefix = &keys, .queue = WaitQueue::kAdmit}, Now());
    KVPOOL_CHECK(outcome.ok() && outcome->answer.matched_blocks == kBlocks);
    return std::move(outcome->answer.blocks);
  }
  // Nothing of it fits.
  void WaitFor(const PrefixKeys& keys) {
    const auto outcome = ledger_.Alloc({.caller = caller_,
                                        .count = static_cast<uint32_t>(keys.blocks.size()),
                                        .prefix = &keys,
                                        .wait = std::chrono::minutes(1),
                                        .queue = WaitQueue::kAdmit},
                                       Now());
    KVPOOL_CHECK(outcome.ok() && outcome->pending != PendingId{});
  }
  std::vector<BlockRef> Alloc(uint32_t count = kBlocks) {
    auto outcome = ledger_.Alloc({.caller = caller_, .count = count}, Now());
    KVPOOL_CHECK(outcome.ok() && outcome->pending == PendingId{});
    return std::move(outcome->answer.blocks);
  }
  void Publish(const PrefixKeys& keys, const std::vector<BlockRef>& blocks) {
    const auto answer =
        ledger_.Publish({.caller = caller_, .prefix = &keys, .blocks = blocks}, Now());
    KVPOOL_CHECK(answer.ok() && answer->published == blocks.size());
  }
  void DecRef(const std::vector<BlockRef>& blocks) {
    KVPOOL_CHECK(ledger_.DecRef({.caller = caller_, .blocks = blocks}, Now()).ok());
  }
  void Evict(const std::vector<BlockRef>& blocks) {
    const auto answer = ledger_.Evict({.caller = caller_, .blocks = blocks}, Now());
    KVPOOL_CHECK(answer.ok() && answer->freed == kBlocks);
  }

  // Any chain: each time another, far from the last.
  uint32_t Next() { return static_cast<uint32_t>((next_ += 0x9E3779B9U) % chain_count_); }
  // One that was never there.
  uint32_t NextUnknown() { return ++unknown_; }

 private:
  TimePoint Now() { return now_ += std::chrono::microseconds(1); }

  static constexpr absl::string_view kModel = "model";

  const Caller caller_{.session = {.bytes = {1}}, .tenant = "bench"};
  const PrefixHasher hasher_;
  const uint32_t chain_count_;
  Ledger ledger_;
  TimePoint now_{std::chrono::seconds(1)};
  uint64_t next_ = 0;
  uint32_t unknown_ = 1U << 31;
};

// Made once a size: one of 10^7 blocks takes seconds.
FullCache& CacheOf(const benchmark::State& state) {
  static absl::flat_hash_map<int64_t, std::unique_ptr<FullCache>> caches;
  std::unique_ptr<FullCache>& cache = caches[state.range(0)];
  if (cache == nullptr) cache = std::make_unique<FullCache>(static_cast<uint32_t>(state.range(0)));
  return *cache;
}

// Target 7, the hashing of the tokens included.
void AcquireHit(benchmark::State& state) {
  FullCache& full = CacheOf(state);
  for (auto unused : state) {
    const std::vector<uint32_t> tokens = FullCache::TokensOf(full.Next());
    std::vector<BlockRef> blocks;
    TimeIteration(state, [&] { blocks = full.Acquire(full.KeysOf(tokens)); });
    full.DecRef(blocks);
  }
  CountBlocks(state, kBlocks);
}

// Target 9, without hashing.
void AcquireKeys(benchmark::State& state) {
  FullCache& full = CacheOf(state);
  for (auto unused : state) {
    const PrefixKeys keys = full.KeysOf(FullCache::TokensOf(full.Next()));
    std::vector<BlockRef> blocks;
    TimeIteration(state, [&] { blocks = full.Acquire(keys); });
    full.DecRef(blocks);
  }
  CountBlocks(state, kBlocks);
}

void Release(benchmark::State& state) {
  FullCache& full = CacheOf(state);
  for (auto unused : state) {
    const std::vector<BlockRef> blocks =
        full.Acquire(full.KeysOf(FullCache::TokensOf(full.Next())));
    TimeIteration(state, [&] { full.DecRef(blocks); });
  }
  CountBlocks(state, kBlocks);
}

// A chain that is listed goes.
void Evict(benchmark::State& state) {
  FullCache& full = CacheOf(state);
  for (auto unused : state) {
    const PrefixKeys keys = full.KeysOf(FullCache::TokensOf(full.Next()));
    std::vector<BlockRef> blocks = full.Acquire(keys);
    full.DecRef(blocks);
    TimeIteration(state, [&] { full.Evict(blocks); });
    blocks = full.Alloc();
    full.Publish(keys, blocks);
    full.DecRef(blocks);
  }
  CountBlocks(state, kBlocks);
}

// Blocks are taken where the policy has to make room, and become findable.
void AllocAndPublish(benchmark::State& state) {
  FullCache& full = CacheOf(state);
  for (auto unused : state) {
    const PrefixKeys keys = full.KeysOf(FullCache::TokensOf(full.NextUnknown()));
    std::vector<BlockRef> blocks;
    TimeIteration(state, [&] {
      blocks = full.Alloc();
      full.Publish(keys, blocks);
    });
    full.DecRef(blocks);
  }
  CountBlocks(state, kBlocks);
}

// What a call that frees a block costs beside an Acquire of so many known blocks, and of more new
// ones than there is room for, that waits. 0: none waits.
void BesideWaitingAcquire(benchmark::State& state) {
  constexpr uint32_t kNew = 76 * kBlocks;
  const auto known = static_cast<uint32_t>(state.range(0));
  FullCache full(known + kNew);
  const PrefixKeys keys = full.KeysOf(FullCache::TokensOf(full.NextUnknown(), known + kNew));
  std::vector<BlockRef> held;
  if (known > 0) {
    held = full.Alloc(known);
    PrefixKeys known_keys = keys;
    known_keys.blocks.resize(known);
    full.Publish(known_keys, held);
  }
  full.Alloc(kBlocks);
  std::vector<BlockRef> block = full.Alloc(1);
  if (known > 0) full.WaitFor(keys);
  for (auto unused : state) {
    TimeIteration(state, [&] { full.DecRef(block); });
    block = full.Alloc(1);
  }
}
BENCHMARK(BesideWaitingAcquire)
    ->ArgName("blocks")
    ->Arg(0)
    ->Arg(176 * kBlocks)
    ->Iterations(1'000)
    ->UseManualTime();

// What a miss costs in as much memory as a cache of so many blocks takes: the limit of target 9.
void RandomRead(benchmark::State& state) {
  struct alignas(64) Line {
    uint32_t next = 0;
  };
  // Goes around all of them, each far from the last.
  std::vector<Line> lines(std::bit_floor(static_cast<uint64_t>(state.range(0)) * 4));
  uint32_t at = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    // A full period modulo a power of two.
    const auto next =
        static_cast<uint32_t>((uint64_t{at} * 2'654'435'761 + 1'013'904'223) & (lines.size() - 1));
    lines[at].next = next;
    at = next;
  }
  for (auto unused : state) {
    TimeIteration(state, [&] {
      for (uint32_t i = 0; i < kBlocks; ++i) at = lines[at].next;
    });
    benchmark::DoNotOptimize(at);
  }
  CountBlocks(state, kBlocks);
}

void OnCaches(benchmark::internal::Benchmark* bench) {
  bench->ArgName("blocks")->Arg(1'000)->Arg(100'000)->Arg(10'000'000);
  bench->Iterations(1'000)->UseManualTime();
}
BENCHMARK(RandomRead)->Apply(OnCaches);
BENCHMARK(AcquireHit)->Apply(OnCaches);
BENCHMARK(AcquireKeys)->Apply(OnCaches);
BENCHMARK(Release)->Apply(OnCaches);
BENCHMARK(Evict)->Apply(OnCaches);
BENCHMARK(AllocAndPublish)->Apply(OnCaches);

// Target 8: heap bytes a block that is cached: what a block costs, what is findable of it, and the
// log of changes, which has an end.
void MemoryPerCachedBlock(benchmark::State& state) {
  const auto num_blocks = static_cast<uint32_t>(state.range(0));
  for (auto unused : state) {
    const size_t before = HeapBytes();
    const FullCache full(num_blocks);
    state.counters["bytes_per_block"] =
        static_cast<double>(HeapBytes() - before) / static_cast<double>(num_blocks);
  }
}
BENCHMARK(MemoryPerCachedBlock)
    ->ArgName("blocks")
    ->Arg(100'000)
    ->Arg(10'000'000)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvpool

BENCHMARK_MAIN();
