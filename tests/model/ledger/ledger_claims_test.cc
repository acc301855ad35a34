#include <chrono>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "tests/model/ledger/call_text.h"
#include "tests/support/catch.h"

// Histories that random calls found, each as short as it can be.

namespace kvpool::test {
namespace {

using std::chrono::microseconds;

constexpr TimePoint kStart(std::chrono::seconds(1));

// A session of `process`, attached to it, that has `blocks` blocks.
Caller Open(Ledger& ledger, uint32_t number, ProcessId process, uint32_t blocks,
            std::optional<SessionId> join = {}) {
  const Caller caller{.session = MakeSessionId(number), .tenant = "alpha"};
  OpenSessionCall call;
  call.id = caller.session;
  call.tenant = caller.tenant;
  call.process = process;
  call.ttl = std::chrono::minutes(1);
  call.join = join;
  REQUIRE(ledger.OpenSession(call, kStart).ok());
  REQUIRE(ledger.Attach(caller, process, kStart).ok());
  if (blocks == 0) return caller;
  AllocCall alloc;
  alloc.caller = caller;
  alloc.count = blocks;
  REQUIRE(ledger.Alloc(alloc, kStart).ok());
  return caller;
}

// A session whose member's process and then own process go; a wait that ends between the times at
// which the claims of the two do.
std::string EventsAfter(const std::vector<microseconds>& times) {
  LedgerOptions options;
  options.num_blocks = 4;
  options.claim_grace = microseconds(4);
  Ledger ledger(options);
  const Caller parent = Open(ledger, 1, ProcessId{2}, 4);
  Open(ledger, 2, ProcessId{1}, 0, parent.session);
  const Caller other = Open(ledger, 3, ProcessId{3}, 0);
  ledger.ProcessGone(ProcessId{1}, kStart + microseconds(10));
  ledger.ProcessGone(ProcessId{2}, kStart + microseconds(12));
  AllocCall call;
  call.caller = other;
  call.count = 2;
  call.wait = microseconds(3);
  REQUIRE(ledger.Alloc(call, kStart + microseconds(12)).ok());
  ledger.TakeEvents();
  for (const microseconds time : times) ledger.Advance(kStart + time);
  std::string text;
  for (const LedgerEvent& event : ledger.TakeEvents()) text += ToText(event) + " ";
  return text;
}

}  // namespace

TEST_CASE("What falls due in one jump of time happens as it does in steps") {
  const std::string in_steps = EventsAfter({microseconds(14), microseconds(15), microseconds(16)});
  CHECK(EventsAfter({microseconds(16)}) == in_steps);
}

TEST_CASE("An Alloc does not count on releasing a block that a dead member may write to") {
  LedgerOptions options;
  options.num_blocks = 2;
  options.limits.reclaim_slice = 1;
  Ledger ledger(options);
  const Caller parent = Open(ledger, 1, ProcessId{1}, 2);
  const Caller member = Open(ledger, 2, ProcessId{2}, 0, parent.session);
  ledger.Detach(member.session, kStart);
  for (const uint32_t block : {0U, 1U}) {
    const std::vector<BlockRef> release = {{.block = BlockId{block}, .generation = {}}};
    AllocCall call;
    call.caller = parent;
    call.count = 1;
    call.release = release;
    CHECK(ledger.Alloc(call, kStart).status().code() == absl::StatusCode::kResourceExhausted);
  }
  CHECK(ledger.CheckInvariants().ok());
}

}  // namespace kvpool::test
