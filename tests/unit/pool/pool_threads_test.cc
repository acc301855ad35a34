#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/device/host_device.h"
#include "core/executor.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"
#include "tests/unit/pool/pool_fixture.h"

namespace kvpool::test {
namespace {

// Runs work on two threads, as the daemon's workers do.
class TwoThreads final : public Executor {
 public:
  TwoThreads() {
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { Run(); });
  }
  ~TwoThreads() override {
    {
      const MutexLock lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_all();
  }
  TwoThreads(const TwoThreads&) = delete;
  TwoThreads& operator=(const TwoThreads&) = delete;

  void Post(absl::AnyInvocable<void()> work) override {
    {
      const MutexLock lock(mutex_);
      queue_.push_back(std::move(work));
    }
    changed_.notify_one();
  }

 private:
  void Run() {
    for (;;) {
      absl::AnyInvocable<void()> work;
      {
        const MutexLock lock(mutex_);
        while (queue_.empty() && !is_stopping_) changed_.wait(mutex_);
        if (queue_.empty()) return;
        work = std::move(queue_.front());
        queue_.pop_front();
      }
      work();
    }
  }

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

// A pool on real host memory, real threads and real time. Declared in the order in which they
// must outlive each other.
struct RealPool {
  explicit RealPool(
      const PoolSpec& spec = SmallSpec(/*num_blocks=*/64),
      Clock clock = [] { return std::chrono::steady_clock::now(); })
      : pool(MakePool(spec, device, std::move(clock), observer)) {}

  absl::Status TryOpen(const TestSession& session, Duration ttl = std::chrono::hours(1)) const {
    OpenSessionCall call;
    call.id = session.id;
    call.tenant = session.tenant;
    call.model_id = "llama";
    call.ttl = ttl;
    return pool->OpenSession(call).status();
  }
  void Open(const TestSession& session) const { REQUIRE(TryOpen(session).ok()); }

  void CheckSound() const {
    const absl::Status invariants = pool->CheckInvariants();
    INFO(invariants.ToString());
    CHECK(invariants.ok());
  }

  RecordingObserver observer;
  TwoThreads executor;
  HostDevice device{executor};
  std::shared_ptr<Pool> pool;
};

absl::Status Write(const RealPool& real, const TestSession& session, BlockPiece piece) {
  Answer<absl::Status> answer;
  real.pool->Write(session.caller(), std::move(piece), answer.callback());
  return answer.Take();
}

AllocResult TakeBlocks(const RealPool& real, const TestSession& session, uint32_t count,
                       Fill fill) {
  AllocCall call = MakeAllocCall(session, count, fill);
  call.wait = std::chrono::minutes(1);
  Answer<AllocResult> answer;
  real.pool->Alloc(call, answer.callback());
  return answer.Take();
}

// Writes a pattern of its own into its blocks, reads it back and counts what is wrong.
void WriteAndRead(const RealPool& real, uint8_t number, uint64_t seed, int rounds,
                  std::atomic<int>& faults) {
  const TestSession session(number);
  Random random(seed + number);
  for (int round = 0; round < rounds; ++round) {
    const uint32_t count = 1 + random.Below(4);
    const AllocResult taken = TakeBlocks(real, session, count, Fill::kPoison);
    if (!taken.ok()) {
      ++faults;
      return;
    }
    const auto pattern = static_cast<uint32_t>(random.Next());
    for (const BlockRef& ref : taken->blocks) {
      const PieceRange range{.block = ref.block, .layer = 1, .side = Side::kV, .size_bytes = 512};
      if (!Write(real, session, MakePiece(range, pattern)).ok()) ++faults;
    }
    auto reader = real.pool->OpenReader(session.caller(), taken->blocks, {1}, 0);
    if (!reader.ok()) {
      ++faults;
      return;
    }
    const auto pieces = ReadAll(**reader);
    if (!pieces.ok() || pieces->size() != 2 * taken->blocks.size()) {
      ++faults;
      return;
    }
    for (const BlockPiece& piece : *pieces) {
      const std::string expected = piece.range.side == Side::kV ? MakePattern(piece.range, pattern)
                                                                : std::string(512, '\xFF');
      if (piece.data != expected) ++faults;
    }
    if (!real.pool->DecRef({.caller = session.caller(), .blocks = taken->blocks}).ok()) ++faults;
  }
}

TEST_CASE("Many threads on their own blocks each read what they wrote") {
  const uint64_t seed = Seed();
  CAPTURE(seed);
  const RealPool real(SmallSpec(/*num_blocks=*/16));
  constexpr uint8_t kThreads = 8;
  for (uint8_t i = 1; i <= kThreads; ++i) real.Open(TestSession(i));
  std::atomic<int> faults = 0;

  {
    std::vector<std::jthread> threads;
    for (uint8_t i = 1; i <= kThreads; ++i) {
      threads.emplace_back([&, i] { WriteAndRead(real, i, seed, /*rounds=*/100, faults); });
    }
  }

  CHECK(faults == 0);
  CHECK(real.pool->counts().free_blocks == 16);
  real.CheckSound();
}

// What one session does at random on blocks that others may hold too.
void DoAnything(const RealPool& real, uint8_t number, uint64_t seed, std::atomic<int>& faults) {
  const TestSession session(number);
  Random random(seed + number);
  std::vector<BlockRef> held;
  for (int step = 0; step < 300; ++step) {
    switch (random.Below(6)) {
      case 0: {
        Answer<AllocResult> answer;
        AllocCall call = MakeAllocCall(session, 1 + random.Below(8), Fill::kPoison);
        call.allow_partial = true;
        real.pool->Alloc(call, answer.callback());
        const AllocResult taken = answer.Take();
        if (!taken.ok()) ++faults;
        if (taken.ok()) held.insert(held.end(), taken->blocks.begin(), taken->blocks.end());
        break;
      }
      case 1: {
        if (held.empty()) break;
        const BlockRef ref = held.back();
        held.pop_back();
        if (!real.pool->DecRef({.caller = session.caller(), .blocks = std::span(&ref, 1)}).ok()) {
          ++faults;
        }
        break;
      }
      case 2: {
        Answer<absl::Status> answer;
        real.pool->FillBlocks(session.caller(), held, Fill::kZero, answer.callback());
        if (!answer.Take().ok()) ++faults;
        break;
      }
      case 3: {
        if (held.size() < 2) break;
        Answer<absl::Status> answer;
        Pool::CopyBlocks(real.pool, real.pool, session.caller(), {held[0]}, {held[1]}, std::nullopt,
                         answer.callback());
        if (!answer.Take().ok()) ++faults;
        break;
      }
      case 4: {
        auto reader = real.pool->OpenReader(session.caller(), held, {}, 0);
        if (!reader.ok() || !ReadAll(**reader).ok()) ++faults;
        break;
      }
      default: {
        // Whatever is there, in whatever state: it may be refused, and must be answered.
        Answer<absl::StatusOr<std::vector<BlockChecksum>>> answer;
        const BlockRef ref{.block = BlockId{random.Below(64)}, .generation = Generation{}};
        real.pool->ChecksumBlocks({ref}, 0, 0, answer.callback());
        answer.Take().IgnoreError();
        real.pool->Advance();
        if (real.pool->counts().held_blocks > 64) ++faults;
      }
    }
  }
}

TEST_CASE("Threads that take, fill, copy, read, sum up and let go leave a sound pool") {
  const uint64_t seed = Seed();
  CAPTURE(seed);
  const RealPool real;
  constexpr uint8_t kThreads = 4;
  for (uint8_t i = 1; i <= kThreads; ++i) real.Open(TestSession(i));
  std::atomic<int> faults = 0;

  {
    std::vector<std::jthread> threads;
    for (uint8_t i = 1; i <= kThreads; ++i) {
      threads.emplace_back([&, i] { DoAnything(real, i, seed, faults); });
    }
  }
  CHECK(faults == 0);
  for (uint8_t i = 1; i <= kThreads; ++i) {
    CHECK(real.pool->CloseSession(TestSession(i).caller()).ok());
  }

  real.CheckSound();
  CHECK(real.pool->counts().free_blocks == 64);
}

// A slow reader, while the blocks that it reads are let go and written by whoever has them next.
TEST_CASE("A read that races with its blocks being let go is of one pattern, or an error") {
  const uint64_t seed = Seed();
  CAPTURE(seed);
  const RealPool real(SmallSpec(/*num_blocks=*/4));
  const TestSession owner(1);
  const TestSession taker(2);
  real.Open(owner);
  real.Open(taker);
  int complete = 0;
  int mixed = 0;

  for (int round = 0; round < 200; ++round) {
    const AllocResult taken = TakeBlocks(real, owner, 4, Fill::kZero);
    REQUIRE(taken.ok());
    auto reader = real.pool->OpenReader(owner.caller(), taken->blocks, {}, 0);
    REQUIRE(reader.ok());
    std::jthread overwriter([&] {
      real.pool->DecRef({.caller = owner.caller(), .blocks = taken->blocks}).IgnoreError();
      const AllocResult again = TakeBlocks(real, taker, 4, Fill::kPoison);
      if (again.ok()) {
        real.pool->DecRef({.caller = taker.caller(), .blocks = again->blocks}).IgnoreError();
      }
    });
    for (;;) {
      Answer<PieceResult> answer;
      (*reader)->Next(answer.callback());
      const PieceResult piece = answer.Take();
      if (!piece.ok()) {
        CHECK(absl::IsAborted(piece.status()));
        break;
      }
      if (!piece->has_value()) {
        ++complete;
        break;
      }
      if ((*piece)->data != std::string((*piece)->range.size_bytes, '\0')) ++mixed;
    }
  }

  CAPTURE(complete);
  CHECK(mixed == 0);
  real.CheckSound();
}

TEST_CASE("Copies from A to B and from B to A at once end") {
  const RealPool a;
  const RealPool b;
  const TestSession session(1);
  a.Open(session);
  b.Open(session);
  const AllocResult in_a = TakeBlocks(a, session, 4, Fill::kZero);
  const AllocResult in_b = TakeBlocks(b, session, 4, Fill::kZero);
  REQUIRE(in_a.ok());
  REQUIRE(in_b.ok());
  std::atomic<int> faults = 0;
  const auto copy = [&](const RealPool& from, const AllocResult& sources, const RealPool& to,
                        const AllocResult& destinations) {
    for (int round = 0; round < 500; ++round) {
      Answer<absl::Status> answer;
      Pool::CopyBlocks(from.pool, to.pool, session.caller(), sources->blocks, destinations->blocks,
                       session.id, answer.callback());
      if (!answer.Take().ok()) ++faults;
    }
  };

  {
    const std::jthread there([&] { copy(a, in_a, b, in_b); });
    const std::jthread back([&] { copy(b, in_b, a, in_a); });
  }

  CHECK(faults == 0);
  a.CheckSound();
  b.CheckSound();
}

// Of a prefix of one block, the only one of that number.
PrefixKeys KeysOfNumber(uint32_t number) {
  PrefixKeys keys;
  keys.blocks.resize(1);
  keys.blocks[0].bytes[0] = 1;
  keys.blocks[0].bytes[1] = static_cast<uint8_t>(number);
  return keys;
}

// The bytes that a worker computes for the prefix of that number.
BlockPiece PieceOfNumber(BlockId block, uint32_t number) {
  return MakePiece({.block = block, .layer = 1, .side = Side::kV, .size_bytes = 512}, number);
}

// Looks prefixes up at random: what it finds must have the prefix's bytes, what it does not find
// it computes and publishes. Now and then it evicts one, or resets all.
void FindOrPublish(const RealPool& real, uint8_t number, uint64_t seed, std::atomic<int>& hits,
                   std::atomic<int>& faults) {
  const TestSession session(number);
  Random random(seed + number);
  for (int round = 0; round < 300; ++round) {
    const uint32_t prefix = random.Below(24);
    const PrefixKeys keys = KeysOfNumber(prefix);
    const auto found =
        real.pool->Lookup({.caller = session.caller(), .prefix = &keys, .acquire = true});
    if (!found.ok()) {
      ++faults;
      return;
    }
    std::vector<BlockRef> held = found->blocks;
    if (!held.empty()) {
      ++hits;
      auto reader = real.pool->OpenReader(session.caller(), held, {1}, 0);
      const auto pieces = reader.ok() ? ReadAll(**reader) : reader.status();
      if (!pieces.ok() || pieces->back().data != PieceOfNumber(held[0].block, prefix).data) {
        ++faults;
      }
    } else {
      const AllocResult taken = TakeBlocks(real, session, 1, Fill::kPoison);
      if (!taken.ok()) {
        ++faults;
        return;
      }
      held = taken->blocks;
      if (!Write(real, session, PieceOfNumber(held[0].block, prefix)).ok()) ++faults;
      if (!real.pool->Publish({.caller = session.caller(), .prefix = &keys, .blocks = held}).ok()) {
        ++faults;
      }
    }
    if (random.Below(10) == 0) {
      if (!real.pool->Evict({.caller = session.caller(), .blocks = held}).ok()) ++faults;
    }
    if (random.Below(100) == 0) real.pool->ResetPrefixes(std::nullopt);
    if (!real.pool->DecRef({.caller = session.caller(), .blocks = held}).ok()) ++faults;
  }
}

// Field cases 4 and 71.
TEST_CASE("What threads find has its prefix's bytes, whoever publishes, evicts and resets") {
  const uint64_t seed = Seed();
  CAPTURE(seed);
  constexpr uint8_t kThreads = 8;
  const RealPool real(SmallSpec(/*num_blocks=*/2 * kThreads));
  for (uint8_t i = 1; i <= kThreads; ++i) real.Open(TestSession(i));
  std::atomic<int> hits = 0;
  std::atomic<int> faults = 0;
  {
    std::vector<std::jthread> threads;
    for (uint8_t i = 1; i <= kThreads; ++i) {
      threads.emplace_back([&, i] { FindOrPublish(real, i, seed, hits, faults); });
    }
  }
  CHECK(faults == 0);
  CHECK(hits > 0);
  CHECK(real.pool->counts().held_blocks == 0);
  real.CheckSound();
  real.pool->ResetPrefixes(std::nullopt);
  while (real.pool->Advance().has_value() && real.pool->counts().cached_blocks > 0) continue;
  CHECK(real.pool->counts().free_blocks == 2 * kThreads);
}

// Field case 43.
TEST_CASE("Sessions that expire while they are called lose their blocks once") {
  const uint64_t seed = Seed();
  CAPTURE(seed);
  constexpr uint8_t kThreads = 4;
  std::atomic<int64_t> seconds = 1;
  const RealPool real(SmallSpec(/*num_blocks=*/16),
                      [&seconds] { return TimePoint(std::chrono::seconds(seconds.load())); });
  std::atomic<int> expired = 0;
  std::atomic<int> faults = 0;
  const auto call = [&](uint8_t number) {
    Random random(seed + number);
    for (int round = 0; round < 100; ++round) {
      TestSession session(number);
      session.id.bytes[0] = static_cast<uint8_t>(round);
      if (!real.TryOpen(session, std::chrono::seconds(2)).ok()) ++faults;
      for (int i = 0; i < 20; ++i) {
        Answer<AllocResult> answer;
        AllocCall alloc = MakeAllocCall(session, 1 + random.Below(4));
        alloc.allow_partial = true;
        real.pool->Alloc(alloc, answer.callback());
        const AllocResult taken = answer.Take();
        if (absl::IsNotFound(taken.status())) break;
        if (!taken.ok()) ++faults;
        if (taken.ok() && random.Below(2) == 0) {
          const auto freed =
              real.pool->DecRef({.caller = session.caller(), .blocks = taken->blocks});
          if (!freed.ok() && !absl::IsNotFound(freed.status())) ++faults;
        }
      }
      // What it holds yet is given back by this, or by its having expired.
      const absl::Status closed = real.pool->CloseSession(session.caller());
      if (absl::IsNotFound(closed)) ++expired;
      if (!closed.ok() && !absl::IsNotFound(closed)) ++faults;
    }
  };
  {
    std::atomic<int> left = kThreads;
    std::vector<std::jthread> threads;
    for (uint8_t i = 1; i <= kThreads; ++i) {
      threads.emplace_back([&, i] {
        call(i);
        --left;
      });
    }
    while (left > 0) {
      ++seconds;
      real.pool->Advance();
    }
  }
  CHECK(faults == 0);
  CHECK(expired > 0);
  seconds += 10;
  while (real.pool->counts().free_blocks < 16 && real.pool->Advance().has_value()) continue;
  CHECK(real.pool->counts().free_blocks == 16);
  real.CheckSound();
}

// Waits, cancels and ends of sessions at once: every callback is called once.
TEST_CASE("Every Alloc is answered once, however it is cancelled or its session ends") {
  const uint64_t seed = Seed();
  CAPTURE(seed);
  const RealPool real(SmallSpec(/*num_blocks=*/4));
  std::atomic<int> asked = 0;
  std::atomic<int> answered = 0;
  const auto worker = [&](uint8_t number) {
    Random random(seed + number);
    for (int round = 0; round < 100; ++round) {
      TestSession session(number);
      session.id.bytes[0] = static_cast<uint8_t>(round);
      if (!real.TryOpen(session).ok()) continue;
      for (int i = 0; i < 4; ++i) {
        AllocCall call = MakeAllocCall(session, 1 + random.Below(3), Fill::kPoison);
        call.wait = std::chrono::minutes(1);
        ++asked;
        const PendingId id = real.pool->Alloc(call, [&](const AllocResult&) { ++answered; });
        if (random.OneIn(2)) real.pool->Cancel(id);
      }
      real.pool->CloseSession(session.caller()).IgnoreError();
    }
  };

  {
    std::vector<std::jthread> threads;
    for (uint8_t i = 1; i <= 4; ++i) threads.emplace_back([&, i] { worker(i); });
  }
  // A fill may still be running; what follows it in the queue is answered after it.
  const TestSession last(9);
  real.Open(last);
  REQUIRE(TakeBlocks(real, last, 4, Fill::kZero).ok());

  CHECK(asked > 0);
  CHECK(answered == asked);
  real.CheckSound();
}

}  // namespace
}  // namespace kvpool::test
