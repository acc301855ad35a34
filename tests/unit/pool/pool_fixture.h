#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/error.h"
#include "core/mutex.h"
#include "core/pool.h"
#include "tests/support/fake_device.h"

namespace kvpool::test {

// What one callback was given, and how often it was called. Copies share it. Thread-safe.
template <typename T>
class Answer {
 public:
  auto callback() {
    return [state = state_](T value) {
      const MutexLock lock(state->mutex);
      ++state->count;
      state->value.emplace(std::move(value));
      state->changed.notify_all();
    };
  }
  int count() const {
    const MutexLock lock(state_->mutex);
    return state_->count;
  }
  // Waits for the call where it is yet to come, and takes what it gave.
  T Take() {
    const MutexLock lock(state_->mutex);
    state_->changed.wait(state_->mutex, [this] { return state_->value.has_value(); });
    return *std::exchange(state_->value, std::nullopt);
  }

 private:
  struct State {
    Mutex mutex;
    std::condition_variable_any changed;
    int count = 0;
    std::optional<T> value;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

using AllocResult = absl::StatusOr<AllocAnswer>;
using PieceResult = absl::StatusOr<std::optional<BlockPiece>>;

// Tells what it was told, as "ended 01", "forgotten 01" or "member gone 01". Thread-safe.
class RecordingObserver final : public PoolObserver {
 public:
  void OnSessionEnded(const SessionId& session, SessionEnd reason) override;
  void OnSessionForgotten(const SessionId& session) override;
  void OnMemberGone(const SessionId& session) override;

  std::vector<std::string> Take();

 private:
  void Add(absl::string_view what, const SessionId& session);

  Mutex mutex_;
  std::vector<std::string> told_ ABSL_GUARDED_BY(mutex_);
};

// A tenant's session, by the last byte of its id.
struct TestSession {
  SessionId id;
  std::string tenant = "tenant";

  explicit TestSession(uint8_t number, std::string of = "tenant");
  Caller caller() const { return {.session = id, .tenant = tenant}; }
};

// A pool with `devices.size()` host shards that is small: two bf16 layers of 512 bytes a side.
PoolSpec SmallSpec(uint32_t num_blocks = 8);
// Blocks of 4 MiB in one raw layer, of which two make a slice; a side is three pieces.
PoolSpec BigSpec(uint32_t num_blocks = 8);

// Makes `pool` on the device, or as many times on it as the spec has shards.
std::shared_ptr<Pool> MakePool(const PoolSpec& spec, Device& device, Clock clock,
                               PoolObserver& observer);

// A pool on a fake device, with time moved by hand.
struct PoolFixture {
  explicit PoolFixture(const PoolSpec& spec = SmallSpec());

  // Opens sessions and takes blocks; REQUIREs that it works.
  void Open(const TestSession& session, ProcessId process = ProcessId{1},
            Duration ttl = std::chrono::hours(1));
  std::vector<BlockRef> Alloc(const TestSession& session, uint32_t count, Fill fill = Fill::kZero);
  void DecRef(const TestSession& session, std::span<const BlockRef> blocks);

  // Start a call; what comes of it is in the answer.
  Answer<absl::Status> StartFill(const TestSession& session, std::vector<BlockRef> blocks,
                                 Fill fill);
  Answer<absl::Status> StartWrite(const TestSession& session, BlockPiece piece);
  // Does a whole call. Requires a device that does not hold.
  absl::Status Write(const TestSession& session, BlockPiece piece);

  // A side of a block as it lies in the device's memory.
  std::span<std::byte> Bytes(BlockId block, uint32_t layer, Side side, uint32_t shard = 0) const;
  // Whether every byte of the block, in every layer and shard, is `value`.
  bool IsFilled(BlockId block, uint8_t value) const;

  FakeDevice device;
  std::atomic<Duration::rep> time{0};
  RecordingObserver observer;
  std::shared_ptr<Pool> pool;
};

// A piece of one side with bytes that depend on `seed` and their place.
BlockPiece MakePiece(PieceRange range, uint32_t seed);
std::string MakePattern(const PieceRange& range, uint32_t seed);

// Reads to the end; the error that it ends with, or the pieces. Requires a device that does not
// hold.
absl::StatusOr<std::vector<BlockPiece>> ReadAll(Pool::Reader& reader);

// The call that frees nothing and waits for nothing, of `count` blocks.
AllocCall MakeAllocCall(const TestSession& session, uint32_t count, Fill fill = Fill::kZero);

}  // namespace kvpool::test
