#include "core/ledger/wait_queues.h"

#include "tests/support/catch.h"

namespace kvpool {
namespace {

TimePoint At(int64_t seconds) { return TimePoint{std::chrono::seconds(seconds)}; }

WaitingCall CallOf(uint64_t id, WaitQueue queue, int64_t deadline) {
  WaitingCall call;
  call.id = PendingId{id};
  call.queue = queue;
  call.deadline = At(deadline);
  return call;
}

TEST_CASE("WaitQueues takes Alloc's queue before Acquire's, each in order of arrival") {
  WaitQueues queues;
  CHECK(queues.front() == nullptr);
  queues.Add(CallOf(1, WaitQueue::kAdmit, 9));
  queues.Add(CallOf(2, WaitQueue::kGrow, 9));
  queues.Add(CallOf(3, WaitQueue::kGrow, 9));
  for (const uint64_t expected : {2U, 3U, 1U}) {
    REQUIRE(queues.front()->id == PendingId{expected});
    queues.Remove(PendingId{expected});
  }
  CHECK(queues.front() == nullptr);
}

TEST_CASE("WaitQueues is clear for Alloc while only Acquires wait") {
  WaitQueues queues;
  CHECK(queues.is_clear(WaitQueue::kAdmit));
  queues.Add(CallOf(1, WaitQueue::kAdmit, 9));
  CHECK(queues.is_clear(WaitQueue::kGrow));
  CHECK_FALSE(queues.is_clear(WaitQueue::kAdmit));
  queues.Add(CallOf(2, WaitQueue::kGrow, 9));
  CHECK_FALSE(queues.is_clear(WaitQueue::kGrow));
  queues.Remove(PendingId{1});
  CHECK_FALSE(queues.is_clear(WaitQueue::kAdmit));
}

TEST_CASE("WaitQueues gives a replaced call's place away, with a deadline of its own") {
  WaitQueues queues;
  queues.Add(CallOf(1, WaitQueue::kGrow, 5));
  queues.Add(CallOf(2, WaitQueue::kGrow, 7));
  queues.Replace(PendingId{1}, PendingId{3}, At(8));
  CHECK(queues.Find(PendingId{1}) == nullptr);
  CHECK(queues.front()->id == PendingId{3});
  CHECK(queues.is_front(*queues.Find(PendingId{3})));
  CHECK(queues.next_deadline() == std::pair(At(7), PendingId{2}));
  queues.Remove(PendingId{2});
  CHECK(queues.next_deadline() == std::pair(At(8), PendingId{3}));
  queues.Remove(PendingId{3});
  CHECK_FALSE(queues.next_deadline().has_value());
  CHECK(queues.size() == 0);
}

TEST_CASE("WaitQueues knows which calls offer a block, by numbers in order of arrival") {
  WaitQueues queues;
  const auto offering = [&](uint64_t id, WaitQueue queue, const std::vector<uint32_t>& blocks) {
    WaitingCall call = CallOf(id, queue, 9);
    for (const uint32_t block : blocks) call.release.push_back({.block = BlockId{block}});
    return queues.Add(std::move(call)).number;
  };
  const uint64_t first = offering(1, WaitQueue::kAdmit, {4, 5, 4});
  const uint64_t second = offering(2, WaitQueue::kGrow, {3, 4});
  CHECK(queues.at(first).id == PendingId{1});
  CHECK(queues.at(second).id == PendingId{2});
  CHECK(queues.Offering(BlockId{4}) == std::vector<uint64_t>{first, second});
  CHECK(queues.Offering(BlockId{6}).empty());
  queues.Replace(PendingId{1}, PendingId{7}, At(9));
  CHECK(queues.at(first).id == PendingId{7});
  queues.Remove(PendingId{7});
  CHECK(queues.Offering(BlockId{4}) == std::vector<uint64_t>{second});
  CHECK(queues.Offering(BlockId{5}).empty());
}

}  // namespace
}  // namespace kvpool
