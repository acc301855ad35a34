#include "tests/unit/ledger/ledger_fixture.h"

namespace kvpool::test {
namespace {

TEST_CASE("Ledger keeps what a session is guaranteed from the others") {
  LedgerFixture f(/*num_blocks=*/10);
  const SessionId a = f.Open(1, {.guaranteed_blocks = 4});
  const SessionId b = f.Open(2);
  CHECK(f.AllocNow(b, {}).available == 6);
  CHECK(f.AllocNow(a, {}).available == 10);
  CheckFull(f.TryAlloc(b, {.count = 7}).status(), 6);
  f.Alloc(b, 6);
  CheckFull(f.TryAlloc(b, {.count = 1}).status(), 0);
  f.Alloc(a, 4);
}

TEST_CASE("Ledger counts what a session holds, each block once, as its guarantee filled") {
  LedgerFixture f(/*num_blocks=*/10);
  const SessionId a = f.Open(1, {.guaranteed_blocks = 4});
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 3);
  REQUIRE(f.IncRef(a, blocks).ok());
  CHECK(f.AllocNow(b, {}).available == 6);
  f.Drop(a, {blocks[0], blocks[0]});
  CHECK(f.AllocNow(b, {}).available == 6);
  f.Alloc(a, 5);
  CHECK(f.AllocNow(b, {}).available == 3);
}

TEST_CASE("Ledger opens no session whose guarantee would not be covered by what is free") {
  LedgerFixture f(/*num_blocks=*/10);
  f.Open(1, {.guaranteed_blocks = 4});
  const SessionId b = f.Open(2);
  f.Alloc(b, 2);
  CheckError(f.TryOpen(3, {.guaranteed_blocks = 5}).status(), absl::StatusCode::kResourceExhausted,
             Reason::kGuarantee);
  f.Open(3, {.guaranteed_blocks = 4});
}

TEST_CASE("Ledger refuses a guarantee over the pool or the tenant's quota") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/10);
  options.max_blocks_per_tenant = 4;
  LedgerFixture f(options);
  CHECK(f.TryOpen(1, {.guaranteed_blocks = 5}).status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(f.TryOpen(1, {.guaranteed_blocks = 11}).status().code() ==
        absl::StatusCode::kInvalidArgument);
  f.Open(1, {.guaranteed_blocks = 4});
}

TEST_CASE("Ledger serves a call within its session's guarantee though others wait") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1, {.guaranteed_blocks = 2});
  const SessionId b = f.Open(2);
  f.Alloc(b, 1);
  f.AllocLater(b, {.count = 2});
  CheckFull(f.TryAlloc(a, {.count = 3}).status(), 2);
  CHECK(f.AllocNow(a, {.count = 3, .allow_partial = true}).blocks.size() == 2);
  // Its guarantee is filled: from now on it waits like anybody.
  CheckFull(f.TryAlloc(a, {.count = 1}).status(), 0);
}

TEST_CASE("Ledger frees a guarantee for others when its session ends") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1, {.guaranteed_blocks = 4});
  const SessionId b = f.Open(2);
  const PendingId id = f.AllocLater(b, {.count = 3});
  REQUIRE(f.Close(a).ok());
  CHECK(f.TakeAnswer(id).ok());
}

// A guarantee comes short where its session lets a block go that another one keeps.
TEST_CASE("Ledger gives what becomes free to a guarantee that came short before all who wait") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1, {.guaranteed_blocks = 2});
  const SessionId b = f.Open(2);
  const auto of_a = f.Alloc(a, 2);
  REQUIRE(f.IncRef(b, of_a).ok());
  const auto of_b = f.Alloc(b, 2);
  const PendingId first = f.AllocLater(b, {.count = 1});
  f.Drop(a, of_a);
  CHECK(f.AllocNow(a, {}).available == 0);
  const PendingId short_one = f.AllocLater(a, {.count = 1});

  f.Drop(b, {of_b[0]});
  CHECK(f.TakeAnswer(short_one).ok());
  // One more is owed to a: b does not get it.
  f.Drop(b, {of_b[1]});
  CHECK(f.Take<AllocDone>().empty());
  CHECK(f.AllocNow(a, {}).available == 1);
  f.Drop(b, {of_a[0]});
  CHECK(f.TakeAnswer(first).ok());
}

TEST_CASE("Ledger lets two short guarantees take what there is, first come first served") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1, {.guaranteed_blocks = 2});
  const SessionId b = f.Open(2, {.guaranteed_blocks = 2});
  const SessionId c = f.Open(3);
  const auto of_a = f.Alloc(a, 2);
  const auto of_b = f.Alloc(b, 2);
  REQUIRE(f.IncRef(c, {of_a[0], of_b[0]}).ok());
  f.Drop(a, of_a);
  f.Drop(b, of_b);
  REQUIRE(f.FreeBlocks() == 2);
  CHECK(f.AllocNow(a, {}).available == 2);
  CHECK(f.AllocNow(b, {}).available == 2);
  CHECK(f.AllocNow(c, {}).available == 0);
  f.Alloc(a, 2);
  CheckFull(f.TryAlloc(b, {.count = 1}).status(), 0);
}

TEST_CASE("Ledger counts what an Alloc releases for it even where guarantees came short") {
  LedgerFixture f(/*num_blocks=*/3);
  const SessionId a = f.Open(1, {.guaranteed_blocks = 2});
  const SessionId b = f.Open(2);
  const auto of_a = f.Alloc(a, 2);
  REQUIRE(f.IncRef(b, of_a).ok());
  f.Drop(a, of_a);
  const auto of_b = f.Alloc(f.Open(3), 0);
  // Two are owed to a and one is free.
  CHECK(f.AllocNow(b, {}).available == 0);
  CHECK(f.AllocNow(b, {.count = 1, .release = {of_a[0]}}).blocks.size() == 1);
  CHECK(of_b.empty());
}

TEST_CASE("Ledger serves a guarantee with what it releases also if that was let go meanwhile") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1, {.guaranteed_blocks = 2});
  const SessionId b = f.Open(2);
  const auto of_a = f.Alloc(a, 2);
  const auto of_b = f.Alloc(b, 2);
  REQUIRE(f.IncRef(b, {of_a[0]}).ok());
  f.AllocLater(b, {.count = 4});
  const PendingId id = f.AllocLater(a, {.count = 2, .release = WithoutGenerations({of_a[1]})});
  f.Drop(a, {of_a[0]});
  f.Drop(a, {of_a[1]});
  REQUIRE(IndicesOf(f.Alloc(a, 1)) == IndicesOf({of_a[1]}));
  CHECK(f.Take<AllocDone>().empty());
  f.Drop(b, {of_b[0]});
  CHECK(f.TakeAnswer(id).status() == absl::OkStatus());
}

TEST_CASE("Ledger judges a guarantee as if what an Alloc releases were not held") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1, {.guaranteed_blocks = 2});
  const SessionId b = f.Open(2);
  const auto of_a = f.Alloc(a, 2);
  f.Alloc(b, 2);
  f.AllocLater(b, {.count = 1});
  CHECK(f.AllocNow(a, {.count = 2, .release = of_a}).blocks.size() == 2);
}

}  // namespace
}  // namespace kvpool::test
