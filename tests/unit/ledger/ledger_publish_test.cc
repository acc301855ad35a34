#include <string>
#include <vector>

#include "tests/unit/ledger/cache_fixture.h"

namespace kvpool {
namespace {

using test::CacheFixture;
using test::CheckEntryError;
using test::CheckError;
using test::KeyOf;
using test::KeysOf;

constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;

TEST_CASE("Published blocks are found by others, in order, and stay when their publisher goes") {
  CacheFixture f(8);
  const SessionId a = f.OpenModel(1);
  const SessionId b = f.OpenModel(2);
  const std::vector<BlockRef> blocks = f.Alloc(a, 3);
  const PublishAnswer answer = f.Publish(a, KeysOf("abc"), blocks);
  CHECK(answer.published == 3);
  CHECK(answer.duplicates.empty());
  CHECK(answer.last_key == KeyOf('A', "abc"));
  CHECK(f.RefCountOf(blocks[0]) == 2);
  CHECK(f.Find(b, "abcd") == blocks);
  CHECK(f.Find(b, "abx").size() == 2);
  CHECK(f.Find(b, "x").empty());
  f.Gone(ProcessId{1});
  f.Detach(a);
  CHECK(f.Counts() ==
        LedgerCounts{.free_blocks = 5, .cached_blocks = 3, .published_blocks = 3, .sessions = 1});
  CHECK(f.Hold(b, "abc") == blocks);
  CHECK(f.Counts().held_blocks == 3);
  CHECK(f.RefCountOf(blocks[2]) == 2);
}

TEST_CASE("Publishing seals: nobody may write to the block until it is free") {
  CacheFixture f(2);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Alloc(a, 1);
  f.Publish(a, KeysOf("a"), blocks);
  CheckError(f.TryPin(a, {}, blocks).status(), kPrecondition, Reason::kSealed);
  f.Evict(a, blocks);
  CheckError(f.TryPin(a, {}, blocks).status(), kPrecondition, Reason::kSealed);
  f.Drop(a, blocks);
  f.Pin(a, {}, f.Alloc(a, 1), /*granted=*/true);
}

TEST_CASE("Of two publishers of a prefix the first one's block stays") {
  CacheFixture f(8);
  const SessionId a = f.OpenModel(1);
  const SessionId b = f.OpenModel(2);
  const std::vector<BlockRef> first = f.Alloc(a, 2);
  f.Publish(a, KeysOf("ab"), first);
  const std::vector<BlockRef> second = f.Alloc(b, 3);
  const PublishAnswer answer = f.Publish(b, KeysOf("abc"), second);
  CHECK(answer.published == 1);
  CHECK(answer.duplicates ==
        std::vector<Duplicate>{{.index = 0, .known = first[0]}, {.index = 1, .known = first[1]}});
  CHECK(f.RefCountOf(second[0]) == 1);
  CHECK_FALSE(f.ledger.GetBlock(second[0].block).sealed);
  CHECK(f.Find(b, "abc") == std::vector<BlockRef>{first[0], first[1], second[2]});
}

TEST_CASE("Publishing the very blocks that are findable changes nothing") {
  CacheFixture f(8);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Alloc(a, 2);
  f.Publish(a, KeysOf("ab"), blocks);
  const PublishAnswer again = f.Publish(a, KeysOf("ab"), blocks);
  CHECK(again.published == 0);
  CHECK(again.duplicates.empty());
  CHECK(f.RefCountOf(blocks[0]) == 2);
}

TEST_CASE("A long sequence publishes block by block after its parent, or after what it skips") {
  CacheFixture f(8);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Alloc(a, 3);
  const PublishAnswer first = f.Publish(a, KeysOf("a"), {blocks[0]});
  PrefixKeys next = KeysOf("b", "a");
  next.parent = first.last_key;
  CHECK(f.Publish(a, next, {blocks[1]}).last_key == KeyOf('A', "ab"));
  CHECK(f.Publish(a, KeysOf("abc"), {blocks[2]}, /*skip=*/2).published == 1);
  CHECK(f.Find(a, "abc") == blocks);
  const auto rest = f.TryLookup(a, KeysOf("cd", "ab"), /*acquire=*/false);
  CHECK(rest->blocks == std::vector<BlockRef>{blocks[2]});
  CHECK(rest->last_key == KeyOf('A', "abc"));
}

TEST_CASE("A parent that is not findable in that very space is unknown") {
  CacheFixture f(8);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Alloc(a, 2);
  f.Publish(a, KeysOf("a"), {blocks[0]});
  const auto unknown = [&](const PrefixKeys& keys, uint32_t skip) {
    CheckError(f.TryPublish(a, keys, {blocks[1]}, skip).status(), kPrecondition,
               Reason::kParentUnknown);
  };
  unknown(KeysOf("b", "x"), 0);
  unknown(KeysOf("xb"), 1);
  PrefixKeys other_space = KeysOf("b", "a", 'B');
  other_space.parent = KeyOf('A', "a");
  unknown(other_space, 0);
  const auto miss = f.TryLookup(a, other_space, /*acquire=*/true);
  CHECK(miss->blocks.empty());
  CHECK(miss->last_key == KeyOf('A', "a"));
  CHECK_FALSE(f.IsPublished(blocks[1]));
}

TEST_CASE("Publish names the first entry that cannot be published, and changes nothing") {
  CacheFixture f(8);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Alloc(a, 3);
  const auto refused = [&](const std::vector<BlockRef>& list, uint32_t index, Reason reason,
                           absl::StatusCode code = kPrecondition) {
    CheckEntryError(f.TryPublish(a, KeysOf("xyz"), list).status(), code, reason, index,
                    list[index].block);
    CHECK(f.Find(a, "x").empty());
  };
  BlockRef stale = blocks[1];
  stale.generation = Generation{99};
  refused({blocks[0], stale, blocks[2]}, 1, Reason::kStaleBlock);
  refused({blocks[0], {.block = BlockId{7}}, blocks[2]}, 1, Reason::kNotHeld);
  refused({blocks[0], blocks[1], blocks[0]}, 2, Reason::kUnspecified,
          absl::StatusCode::kInvalidArgument);
  f.Publish(a, KeysOf("a"), {blocks[2]});
  refused(blocks, 2, Reason::kSealed);
  const PendingId pin = f.Pin(a, {}, {blocks[1]}, /*granted=*/true);
  refused({blocks[0], blocks[1], f.Alloc(a, 1)[0]}, 1, Reason::kBusy, absl::StatusCode::kAborted);
  f.Unpin(pin);
  const PendingId read = f.Pin(a, {blocks[1]}, {}, /*granted=*/true);
  CHECK(f.Publish(a, KeysOf("m"), {blocks[1]}).published == 1);
  f.Unpin(read);
}

TEST_CASE("A claimed block cannot be published, whoever holds it") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  const SessionId b = f.OpenModel(2);
  const std::vector<BlockRef> blocks = f.Alloc(a, 1);
  REQUIRE(f.IncRef(b, blocks) == absl::OkStatus());
  f.Detach(a);
  CheckEntryError(f.TryPublish(b, KeysOf("a"), blocks).status(), kPrecondition, Reason::kClaimed, 0,
                  blocks[0].block);
  f.Gone(ProcessId{1});
  CHECK(f.Publish(b, KeysOf("a"), blocks).published == 1);
}

TEST_CASE("A prefix as long as the blocks and what is skipped is published, no other") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Alloc(a, 2);
  for (const std::string text : {"a", "abc"}) {
    CheckError(f.TryPublish(a, KeysOf(text), blocks).status(), absl::StatusCode::kInvalidArgument,
               Reason::kUnspecified);
  }
}

TEST_CASE("A session without a model uses no prefixes") {
  CacheFixture f(4);
  const SessionId a = f.Open(1);
  const std::vector<BlockRef> blocks = f.Alloc(a, 1);
  const auto check = [](const absl::Status& status) {
    CheckError(status, absl::StatusCode::kInvalidArgument, Reason::kUnspecified);
  };
  check(f.TryPublish(a, KeysOf("a"), blocks).status());
  check(f.TryLookup(a, KeysOf("a"), /*acquire=*/false).status());
  check(f.TryAcquire(a, KeysOf("a"), 1).status());
}

TEST_CASE("A block that is sealed and not findable is published again under its own prefix alone") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Alloc(a, 1);
  f.Publish(a, KeysOf("a"), blocks);
  CHECK(f.Evict(a, blocks).freed == 0);
  CHECK(f.Find(a, "a").empty());
  CheckEntryError(f.TryPublish(a, KeysOf("b"), blocks).status(), kPrecondition, Reason::kSealed, 0,
                  blocks[0].block);
  CHECK(f.Publish(a, KeysOf("a"), blocks).published == 1);
  CHECK(f.Find(a, "a") == blocks);
}

TEST_CASE("A repeated Publish under its key gets the first answer") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Alloc(a, 1);
  const auto first = f.TryPublish(a, KeysOf("a"), blocks, 0, /*key=*/5);
  CHECK(first->published == 1);
  CHECK(*f.TryPublish(a, KeysOf("a"), blocks, 0, /*key=*/5) == *first);
  CheckError(f.TryPublish(a, KeysOf("b"), blocks, 0, /*key=*/5).status(),
             absl::StatusCode::kInvalidArgument, Reason::kUnspecified);
}

}  // namespace
}  // namespace kvpool
