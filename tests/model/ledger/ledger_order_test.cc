#include <cstdint>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "tests/model/ledger/call_text.h"
#include "tests/support/catch.h"

// Which free block is given out, for the histories of which the memory contract says it exactly.

namespace kvpool::test {
namespace {

constexpr TimePoint kNow(std::chrono::seconds(1));
const Caller kWorker{.session = MakeSessionId(1), .tenant = "alpha"};

LedgerOptions Blocks(uint32_t num_blocks) {
  LedgerOptions options;
  options.num_blocks = num_blocks;
  return options;
}

void Open(Ledger& ledger, const Caller& caller) {
  OpenSessionCall call;
  call.id = caller.session;
  call.tenant = caller.tenant;
  call.ttl = std::chrono::minutes(1);
  REQUIRE(ledger.OpenSession(call, kNow).ok());
}

std::vector<uint32_t> Alloc(Ledger& ledger, const Caller& caller, uint32_t count,
                            std::span<const BlockRef> release = {}) {
  AllocCall call;
  call.caller = caller;
  call.count = count;
  call.release = release;
  const auto outcome = ledger.Alloc(call, kNow);
  REQUIRE(outcome.ok());
  REQUIRE(outcome->pending == PendingId{});
  std::vector<uint32_t> ids;
  for (const BlockRef& ref : outcome->answer.blocks) ids.push_back(ToIndex(ref.block));
  return ids;
}

std::vector<BlockRef> Refs(const std::vector<uint32_t>& ids) {
  std::vector<BlockRef> refs;
  for (const uint32_t id : ids) refs.push_back({.block = BlockId{id}, .generation = {}});
  return refs;
}

void DecRef(Ledger& ledger, const Caller& caller, const std::vector<uint32_t>& ids) {
  const std::vector<BlockRef> blocks = Refs(ids);
  DecRefCall call;
  call.caller = caller;
  call.blocks = blocks;
  REQUIRE(ledger.DecRef(call, kNow).ok());
}

using Ids = std::vector<uint32_t>;

}  // namespace

TEST_CASE("A fresh pool gives out blocks 0, 1, 2 and so on") {
  Ledger ledger(Blocks(6));
  Open(ledger, kWorker);
  CHECK(Alloc(ledger, kWorker, 1) == Ids{0});
  CHECK(Alloc(ledger, kWorker, 2) == Ids{1, 2});
  CHECK(Alloc(ledger, kWorker, 3) == Ids{3, 4, 5});
}

TEST_CASE("The block freed last is given out first") {
  Ledger ledger(Blocks(6));
  Open(ledger, kWorker);
  REQUIRE(Alloc(ledger, kWorker, 4) == Ids{0, 1, 2, 3});
  DecRef(ledger, kWorker, {1});
  DecRef(ledger, kWorker, {3});
  DecRef(ledger, kWorker, {0});
  CHECK(Alloc(ledger, kWorker, 4) == Ids{0, 3, 1, 4});
}

TEST_CASE("A list is freed in its order, each block at its last entry") {
  Ledger ledger(Blocks(4));
  Open(ledger, kWorker);
  REQUIRE(Alloc(ledger, kWorker, 3) == Ids{0, 1, 2});
  const std::vector<BlockRef> again = Refs({0});
  IncRefCall inc;
  inc.caller = kWorker;
  inc.blocks = again;
  REQUIRE(ledger.IncRef(inc, kNow).ok());
  DecRef(ledger, kWorker, {0, 2, 0, 1});
  CHECK(Alloc(ledger, kWorker, 4) == Ids{1, 0, 2, 3});
}

TEST_CASE("What an Alloc releases it is given first") {
  Ledger ledger(Blocks(5));
  Open(ledger, kWorker);
  REQUIRE(Alloc(ledger, kWorker, 3) == Ids{0, 1, 2});
  CHECK(Alloc(ledger, kWorker, 3, Refs({0, 2})) == Ids{2, 0, 3});
}

TEST_CASE("A block is given out while another session holds its neighbours") {
  Ledger ledger(Blocks(4));
  const Caller other{.session = MakeSessionId(2), .tenant = "alpha"};
  Open(ledger, kWorker);
  Open(ledger, other);
  REQUIRE(Alloc(ledger, kWorker, 2) == Ids{0, 1});
  REQUIRE(Alloc(ledger, other, 2) == Ids{2, 3});
  DecRef(ledger, kWorker, {0});
  CHECK(Alloc(ledger, other, 1) == Ids{0});
}

}  // namespace kvpool::test
