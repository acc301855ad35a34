// How Memory's operations end.

#include <future>
#include <thread>
#include <vector>

#include "core/device/host_device.h"
#include "core/memory/memory.h"
#include "tests/support/catch.h"
#include "tests/support/outcome.h"
#include "tests/unit/memory/fixture.h"
#include "tests/unit/memory/specs.h"

namespace kvpool {
namespace {

using test::Blocks;
using test::Fixture;
using test::Outcome;
using test::Plan;
using test::Read;
using test::SmallSpec;
using test::Write;

TEST_CASE("an operation ends once, after the last of its shards") {
  Fixture fixture(SmallSpec("fp8", MemoryOrder::kLayerMajor, VMode::kSeparate, 4, 3));
  fixture.device.Hold();
  Outcome filled;
  {
    // The list of blocks need not live until the end.
    const auto blocks = Blocks({0, 2});
    fixture.memory->Fill(blocks, 0xFF, filled.Take());
  }
  for (int shard = 0; shard < 3; ++shard) {
    CHECK_FALSE(filled.is_done());
    CHECK(fixture.device.CompleteOne());
  }
  CHECK(filled.ok());
  fixture.device.Release();
  CHECK(Read(*fixture.memory, {.shard = 2, .block = BlockId{2}, .size_bytes = 1}) ==
        std::vector<std::byte>{std::byte{0xFF}});
}

// Runs each piece of work on a thread of its own.
class ThreadsExecutor final : public Executor {
 public:
  void Post(absl::AnyInvocable<void()> work) override {
    threads_.emplace_back([work = std::move(work)]() mutable { work(); });
  }

 private:
  std::vector<std::jthread> threads_;
};

TEST_CASE("shards that end on threads of their own end as one operation") {
  ThreadsExecutor executor;
  HostDevice host(executor);
  const PoolLayout layout =
      Plan(SmallSpec("fp8", MemoryOrder::kLayerMajor, VMode::kSeparate, 4, 3));
  const std::vector<Device*> devices(3, &host);
  const auto memory = Memory::Create(layout, devices);
  REQUIRE(memory.ok());
  for (int round = 0; round < 20; ++round) {
    const auto value = static_cast<uint8_t>(round);
    std::promise<absl::Status> filled;
    (*memory)->Fill(Blocks({1}), value,
                    [&filled](absl::Status status) { filled.set_value(std::move(status)); });
    REQUIRE(filled.get_future().get().ok());
    for (uint32_t shard = 0; shard < 3; ++shard) {
      std::vector<std::byte> bytes(8);
      std::promise<absl::Status> read;
      (*memory)->Read({.shard = shard, .block = BlockId{1}, .size_bytes = 8}, bytes,
                      [&read](absl::Status status) { read.set_value(std::move(status)); });
      REQUIRE(read.get_future().get().ok());
      CHECK(bytes == std::vector<std::byte>(8, std::byte{value}));
    }
  }
}

TEST_CASE("the first shard's error is the operation's, which still waits for the others") {
  Fixture fixture(SmallSpec("fp8", MemoryOrder::kLayerMajor, VMode::kSeparate, 4, 3));
  fixture.device.Hold();
  Outcome copied;
  fixture.memory->Copy(Blocks({0}), *fixture.memory, Blocks({1}), copied.Take());
  CHECK(fixture.device.CompleteOne());
  CHECK(fixture.device.FailOne(absl::DataLossError("first")));
  CHECK_FALSE(copied.is_done());
  CHECK(fixture.device.FailOne(absl::InternalError("second")));
  CHECK(copied.status() == absl::DataLossError("first"));
}

TEST_CASE("a device's error is that of the read or the write") {
  Fixture fixture(SmallSpec("fp8", MemoryOrder::kLayerMajor, VMode::kSeparate));
  const PieceRange range{.size_bytes = 4};
  fixture.device.FailNextOperation(absl::DataLossError("write"));
  CHECK(Write(*fixture.memory, range, std::byte{1}) == absl::DataLossError("write"));
  std::vector<std::byte> bytes(4);
  Outcome outcome;
  fixture.device.FailNextOperation(absl::DataLossError("read"));
  fixture.memory->Read(range, bytes, outcome.Take());
  CHECK(outcome.status() == absl::DataLossError("read"));
}

TEST_CASE("operations on no blocks succeed") {
  const Fixture fixture(SmallSpec("fp8", MemoryOrder::kLayerMajor, VMode::kSeparate, 4, 2));
  Outcome filled;
  Outcome copied;
  fixture.memory->Fill({}, 0xFF, filled.Take());
  fixture.memory->Copy({}, *fixture.memory, {}, copied.Take());
  CHECK(filled.ok());
  CHECK(copied.ok());
}

}  // namespace
}  // namespace kvpool
