// What tenants of one pool see of each other's prefixes and bytes: nothing.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/integration/support/node.h"
#include "tests/integration/support/prefix_user.h"
#include "tests/support/catch.h"
#include "tests/support/daemon_process.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"

namespace kvpool::test {
namespace {

// A daemon with a socket of each of two tenants, and an operator's.
class TwoTenants {
 public:
  explicit TwoTenants(uint32_t num_blocks, const std::string& more = "")
      : daemon_({.pools_json = OnePool(num_blocks, more),
                 .listeners_json =
                     absl::StrCat(R"([{"address": ")", SocketOf("a"),
                                  R"(", "role": "ROLE_WORKER", "tenant": "a"},
                         {"address": ")",
                                  SocketOf("b"), R"(", "role": "ROLE_WORKER", "tenant": "b"},
                         {"address": ")",
                                  SocketOf("o"), R"(", "role": "ROLE_OPERATOR"}])"),
                 .wait_until_serving = false}),
        operators(daemon_.Connect(SocketOf("o"))),
        client_a(daemon_.Connect(SocketOf("a"))),
        client_b(daemon_.Connect(SocketOf("b"))) {
    REQUIRE(Eventually([&] { return operators.GetPool("p").ok(); }));
    REQUIRE(Eventually([&] { return client_a.GetPool("p").ok() && client_b.GetPool("p").ok(); }));
    a = std::make_unique<PrefixUser>(client_a);
    b = std::make_unique<PrefixUser>(client_b);
  }

 private:
  std::string SocketOf(const std::string& name) const { return "unix:" + directory_.File(name); }

  const TempDir directory_;
  DaemonProcess daemon_;

 public:
  RawClient operators;
  RawClient client_a;
  RawClient client_b;
  std::unique_ptr<PrefixUser> a;
  std::unique_ptr<PrefixUser> b;
};

TEST_CASE("A tenant does not find another one's prefixes, by tokens, hashes or key") {
  TwoTenants node(8);
  const auto published = node.a->TryPublish(BlocksOf({1}), *node.a->session().Alloc(1));
  REQUIRE(Said(published) == "OK");
  v1::Prefix hashes;
  hashes.add_block_hashes(std::string(32, 'h'));
  node.a->PublishNew(hashes);
  CHECK(node.a->Find(BlocksOf({1})).size() == 1);
  CHECK(node.a->Find(hashes).size() == 1);
  CHECK(node.b->Find(BlocksOf({1})).empty());
  CHECK(node.b->Find(hashes).empty());
  v1::Prefix next = BlocksOf({2});
  next.set_parent_key(published->last_key());
  CHECK(Said(node.b->TryPublish(next, *node.b->session().Alloc(1))) ==
        "FAILED_PRECONDITION PARENT_UNKNOWN");
  CHECK(Said(node.a->TryPublish(next, *node.a->session().Alloc(1))) == "OK");
  // The same tokens are each tenant's own.
  CHECK(node.b->PublishNew(BlocksOf({1})).block_ids_size() == 1);
}

TEST_CASE("A tenant evicts and resets what is its own") {
  TwoTenants node(8);
  const v1::Blocks cached = node.a->Cache(BlocksOf({1, 2}));
  CHECK(node.b->TryEvict(5)->block_ids_size() == 0);
  CHECK(Said(node.b->TryEvict(0, cached)) == "PERMISSION_DENIED");
  CHECK(*node.operators.ResetPrefixes("p", "b") == 0);
  CHECK(node.a->Find(BlocksOf({1, 2})).size() == 2);
  CHECK(Said(node.client_b.ResetPrefixes("p", "a")) == "PERMISSION_DENIED");
  CHECK(*node.operators.ResetPrefixes("p", "a") == 2);
  CHECK(node.a->Find(BlocksOf({1, 2})).empty());
}

TEST_CASE("What one tenant cached is zeros in the block that another one gets") {
  TwoTenants node(1);
  const v1::Blocks blocks = *node.a->session().Alloc(1);
  const uint32_t id = blocks.block_ids(0);
  for (uint32_t layer = 0; layer < 2; ++layer) {
    for (const v1::Side side : {v1::SIDE_K, v1::SIDE_V}) {
      REQUIRE(node.a->session().Write(id, layer, side, 0, std::string(1024, '\xFF')).ok());
    }
  }
  REQUIRE(Said(node.a->TryPublish(BlocksOf({1}), blocks)) == "OK");
  REQUIRE(node.a->session().DecRef(blocks).ok());
  const auto acquired = node.b->TryAcquire(BlocksOf({1}), 1);
  REQUIRE(Said(acquired) == "OK");
  CHECK(acquired->matched_blocks() == 0);
  const auto pieces = node.b->session().Read(acquired->blocks());
  REQUIRE(Said(pieces) == "OK");
  size_t bytes = 0;
  for (const v1::BlockPiece& piece : *pieces) {
    CHECK(piece.data() == std::string(piece.data().size(), '\0'));
    bytes += piece.data().size();
  }
  CHECK(bytes == 4096);
}

TEST_CASE("A tenant at its quota evicts its own cached blocks, and leaves the others'") {
  TwoTenants node(8, R"(, "max_blocks_per_tenant": 3)");
  node.b->Cache(BlocksOf({1, 2}));
  node.a->Cache(BlocksOf({5, 6, 7}));
  CHECK(Said(node.a->session().Alloc(2)) == "OK");
  CHECK(node.a->Find(BlocksOf({5, 6, 7})).size() == 1);
  CHECK(node.b->Find(BlocksOf({1, 2})).size() == 2);
  CHECK(Said(node.a->session().Alloc(2)) == "RESOURCE_EXHAUSTED QUOTA");
}

}  // namespace
}  // namespace kvpool::test
