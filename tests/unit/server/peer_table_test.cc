#include "server/peer.h"
#include "tests/support/catch.h"

namespace kvpool::server {
namespace {

std::shared_ptr<const Peer> MakePeer(uint64_t connection) {
  auto peer = std::make_shared<Peer>();
  peer->connection = connection;
  peer->role = v1::ROLE_WORKER;
  return peer;
}

TEST_CASE("PeerTable finds a connection by gRPC's name for it") {
  PeerTable table;
  table.Add(17, MakePeer(1));
  REQUIRE(table.Find("fd:17") != nullptr);
  CHECK(table.Find("fd:17")->connection == 1);
}

TEST_CASE("PeerTable finds nothing under a name that is no connection's") {
  PeerTable table;
  table.Add(17, MakePeer(1));
  for (const char* name : {"fd:18", "fd:", "fd:17x", "fd:-1", "17", "", "unix:17",
                           "ipv4:127.0.0.1:17", "fd:99999999999"}) {
    CAPTURE(name);
    CHECK(table.Find(name) == nullptr);
  }
}

TEST_CASE("A number that is used again leads to the new connection alone") {
  PeerTable table;
  table.Add(17, MakePeer(1));
  table.Add(17, MakePeer(2));
  CHECK(table.size() == 1);
  CHECK(table.Find("fd:17")->connection == 2);

  // The end of the old connection is told late.
  table.Remove(17, 1);
  REQUIRE(table.Find("fd:17") != nullptr);
  CHECK(table.Find("fd:17")->connection == 2);

  table.Remove(17, 2);
  CHECK(table.Find("fd:17") == nullptr);
  CHECK(table.size() == 0);
  table.Remove(17, 2);
  CHECK(table.size() == 0);
}

}  // namespace
}  // namespace kvpool::server
