#include "tests/unit/ledger/ledger_fixture.h"

// How many references blocks have at most.

namespace kvpool::test {
namespace {

TEST_CASE("Ledger refuses a reference over max_references_per_block, all sessions' together") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/2);
  options.limits.max_references_per_block = 5;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 2);
  const BlockRef block = blocks[0];
  const BlockRef other = blocks[1];
  REQUIRE(f.IncRef(b, {block, block}).ok());
  // The third entry of the block is the one too many; what comes before it is not done either.
  CheckEntryError(f.IncRef(a, {other, block, block, block, other}),
                  absl::StatusCode::kResourceExhausted, Reason::kLimit, 3, block.block);
  CHECK(f.RefCountOf(block) == 3);
  CHECK(f.RefCountOf(other) == 1);
  REQUIRE(f.IncRef(a, {block, other, block}).ok());
  CHECK(f.RefCountOf(block) == 5);
  CheckEntryError(f.IncRef(b, {block}), absl::StatusCode::kResourceExhausted, Reason::kLimit, 0,
                  block.block);
  f.Drop(a, {block});
  CHECK(f.IncRef(b, {block}).ok());
}

TEST_CASE("Ledger refuses to have more than max_sharers sessions beyond each block's first") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/2);
  options.limits.max_sharers = 3;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const SessionId c = f.Open(3);
  const auto blocks = f.Alloc(a, 2);
  REQUIRE(f.IncRef(b, blocks).ok());
  CheckError(f.IncRef(c, blocks), absl::StatusCode::kResourceExhausted, Reason::kLimit);
  CHECK(f.RefCountOf(blocks[0]) == 2);
  REQUIRE(f.IncRef(c, {blocks[0]}).ok());
  REQUIRE(f.IncRef(c, {blocks[0]}).ok());  // It holds it already.
  f.Drop(b, {blocks[1]});
  CHECK(f.IncRef(c, {blocks[1]}).ok());
}

TEST_CASE("Ledger's counts of references go to 2^32 - 1 by default") {
  CHECK(LedgerLimits{}.max_references_per_block == UINT32_MAX);
}

}  // namespace
}  // namespace kvpool::test
