// Dozens of workers that come, go, and are killed, for as long as KVPOOL_CHURN_SECONDS says.
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/integration/support/node.h"
#include "tests/integration/support/test_device.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/random.h"

namespace kvpool::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kWorkers = 64;
constexpr int kExitClosed = 0;
constexpr int kExitLeft = 3;
constexpr int kExitKilled = 128 + SIGKILL;

// Fewer than all workers would hold: each block changes hands all the time.
uint32_t NumBlocks() { return TestDevice().empty() ? 512 : 64; }

std::chrono::seconds ChurnTime() {
  const char* text = std::getenv("KVPOOL_CHURN_SECONDS");
  const int otherwise = TestDevice().empty() ? 60 : 15;
  return std::chrono::seconds(text == nullptr ? otherwise : std::atoi(text));
}

// The workers of a node, each replaced by another when it has ended.
class Crowd {
 public:
  struct Totals {
    uint64_t started = 0;
    uint64_t closed = 0;
    uint64_t left = 0;
    uint64_t killed = 0;
    uint64_t stamped = 0;
    uint64_t taken = 0;
  };

  Crowd(Node& node, uint64_t seed) : node_(node), seed_(seed), workers_(kWorkers) {
    std::filesystem::create_directory(Directory());
    for (uint32_t number = 0; number < kWorkers; ++number) Start(number);
  }

  // Kills one where it still runs, and starts another in its place.
  void Kill(uint32_t number) {
    workers_[number]->Signal(SIGKILL);
    Settle(number);
    Start(number);
  }

  // Starts another where it has ended.
  void Replace(uint32_t number) {
    if (workers_[number]->IsRunning()) return;
    Settle(number);
    Start(number);
  }

  void KillAll() {
    for (const auto& worker : workers_) worker->Signal(SIGKILL);
    for (uint32_t number = 0; number < kWorkers; ++number) Settle(number);
  }

  const Totals& totals() const { return totals_; }

 private:
  std::string Directory() { return node_.daemon().directory().File("mail"); }

  void Start(uint32_t number) {
    // No two workers have the same, nor the same stamps.
    const uint64_t seed = (seed_ & 0xFFFF) << 32 | totals_.started++;
    workers_[number] = std::make_unique<ChildProcess>(ChildProcess::Options{
        .arguments = {KVPOOL_TEST_CHURNER, node_.daemon().worker_socket(), Directory(),
                      absl::StrCat(number), absl::StrCat(kWorkers), absl::StrCat(seed)},
        .environment = {},
        .stderr_path = "",
        .uid = {}});
  }

  // Waits for its end, which must be one of those that are meant.
  void Settle(uint32_t number) {
    const int code = workers_[number]->Wait();
    CAPTURE(number, code);
    REQUIRE((code == kExitClosed || code == kExitLeft || code == kExitKilled));
    if (code == kExitLeft) ++totals_.left;
    if (code == kExitKilled) ++totals_.killed;
    if (code != kExitClosed) return;
    ++totals_.closed;
    uint64_t stamped = 0;
    uint64_t taken = 0;
    std::istringstream(workers_[number]->ReadAll()) >> stamped >> taken;
    totals_.stamped += stamped;
    totals_.taken += taken;
  }

  Node& node_;
  const uint64_t seed_;
  std::vector<std::unique_ptr<ChildProcess>> workers_;
  Totals totals_;
};

// No block is ever two workers', and nothing of those that went stays. To replay a failure, as far
// as processes can be, set KVPOOL_TEST_SEED to the seed that it prints.
TEST_CASE("Workers that come, hand over, go and are killed find their bytes and leave nothing") {
  const uint64_t seed = Seed();
  CAPTURE(seed);
  Random random(seed);
  const uint32_t num_blocks = NumBlocks();
  Node node(num_blocks);
  Crowd crowd(node, seed);
  const auto begin = Clock::now();
  uint64_t warm_bytes = 0;
  while (Clock::now() - begin < ChurnTime()) {
    // Each look at the pool is a call to the daemon, which sets the pace.
    const v1::PoolStatus pool = node.Pool();
    REQUIRE(pool.free_blocks() + pool.cached_blocks() + pool.held_blocks() +
                pool.quarantined_blocks() ==
            num_blocks);
    if (random.OneIn(16)) crowd.Kill(random.Below(kWorkers));
    crowd.Replace(random.Below(kWorkers));
    if (warm_bytes == 0 && Clock::now() - begin > ChurnTime() / 3) {
      warm_bytes = node.daemon().ResidentBytes();
    }
  }
  crowd.KillAll();

  const Crowd::Totals& totals = crowd.totals();
  CAPTURE(totals.started, totals.closed, totals.left, totals.killed, totals.stamped, totals.taken);
  CHECK(totals.closed > 0);
  CHECK(totals.left > 0);
  CHECK(totals.killed > 0);
  CHECK(totals.taken > 0);
  CHECK(totals.stamped > num_blocks);
  node.CheckAllIsBack();
  // A worker that left 64 KiB behind would show within some hundred; a sanitizer keeps what is
  // freed.
  CHECK(warm_bytes > 0);
  if (!kIsSanitized) {
    CHECK(node.daemon().ResidentBytes() < warm_bytes + 32 * 1024 * 1024);
  }
}

}  // namespace
}  // namespace kvpool::test
