// A daemon that starts again, and a pool that is made anew: what was handed out before names
// nothing of what is there now.
#include <string>

#include "tests/integration/support/node.h"
#include "tests/integration/support/prefix_user.h"
#include "tests/support/catch.h"

namespace kvpool::test {
namespace {

// What a router or another worker may have kept of a pool that is gone.
struct Kept {
  v1::Blocks blocks;  // Of the prefix {1, 2}.
  std::string last_key;
};

Kept PublishTwo(RawClient& client) {
  PrefixUser user(client);
  Kept kept;
  kept.blocks = user.PublishNew(BlocksOf({1, 2}));
  const auto hint = user.TryLookup(BlocksOf({1, 2}), /*acquire=*/false);
  REQUIRE(Said(hint) == "OK");
  kept.last_key = hint->last_key();
  CHECK(user.session().Close().ok());
  return kept;
}

// The same blocks are somebody's again, under another prefix.
void CheckNamesNothing(RawClient& client, const Kept& kept) {
  PrefixUser owner(client);
  PrefixUser user(client);
  CHECK(user.Find(BlocksOf({1, 2})).empty());
  const v1::Blocks blocks = owner.PublishNew(BlocksOf({7, 8}));
  REQUIRE(IdsOf(blocks) == IdsOf(kept.blocks));

  CHECK(Said(user.session().IncRef(kept.blocks)) == "FAILED_PRECONDITION STALE_BLOCK");
  CHECK(Said(user.session().Read(kept.blocks)) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(Said(owner.session().Read(kept.blocks)) == "FAILED_PRECONDITION STALE_BLOCK");
  CHECK(Said(owner.session().DecRef(kept.blocks)) == "FAILED_PRECONDITION STALE_BLOCK");
  CHECK(user.TryEvict(0, kept.blocks)->block_ids().empty());
  CHECK(user.Find(BlocksOf({7, 8})) == IdsOf(blocks));
  v1::Prefix after = BlocksOf({3});
  after.set_parent_key(kept.last_key);
  CHECK(user.Find(after).empty());
  CHECK(Said(user.TryPublish(after, *user.session().Alloc(1))) ==
        "FAILED_PRECONDITION PARENT_UNKNOWN");
  CHECK(owner.session().Close().ok());
  CHECK(user.session().Close().ok());
}

// Field cases 33, 55, 95 and 100.
TEST_CASE("What a dead daemon handed out names nothing of the next one's") {
  DaemonProcess daemon({.pools_json = OnePool(4)});
  Kept kept;
  {
    RawClient client(daemon.Connect(daemon.worker_socket()));
    kept = PublishTwo(client);
  }
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    daemon.process().Kill();
    daemon.Start();
    RawClient client(daemon.Connect(daemon.worker_socket()));
    CheckNamesNothing(client, kept);
  }
  CHECK(daemon.Stop() == 0);
}

TEST_CASE("What a deleted pool handed out names nothing of the next one of its name") {
  Node node({.pools_json = OnePool(4)});
  RawClient* const client = node.Connect();
  const Kept kept = PublishTwo(*client);
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    const std::string spec = OnePool(4);
    REQUIRE(Said(node.eyes().DeletePool("p")) == "OK");
    REQUIRE(Said(node.eyes().CreatePool(spec.substr(1, spec.size() - 2))) == "OK");
    CheckNamesNothing(*client, kept);
  }
  CHECK(Said(node.eyes().ResetPrefixes("p")) == "OK");
  node.CheckAllIsBack();
}

}  // namespace
}  // namespace kvpool::test
