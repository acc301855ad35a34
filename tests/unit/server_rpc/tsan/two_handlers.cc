#include <cstdlib>
#include <string>
#include <thread>

#include "tests/support/catch.h"
#include "tests/unit/server_rpc/test_server.h"
#include "tests/unit/server_rpc/tsan/meeting.h"

namespace kvpool::test {
namespace {

grpc::Status GetDaemon(Connection& connection) {
  v1::GetDaemonResponse response;
  return Call(*connection.inspect, &v1::InspectService::Stub::GetDaemon, v1::GetDaemonRequest{},
              response);
}

TEST_CASE("Two handlers count themselves at the same time") {
  const char* const locked = std::getenv("KVPOOL_TEST_LOCKED");
  REQUIRE(locked != nullptr);
  Meeting meeting(locked == std::string("1"));
  TestServer server({.limits = {}, .trace = false, .pool_tenant = {}, .on_get_daemon = [&meeting] {
                       meeting.Visit();
                     }});
  Connection first = server.Connect(v1::ROLE_OPERATOR);
  Connection second = server.Connect(v1::ROLE_OPERATOR);

  grpc::Status first_status;
  std::thread caller([&] { first_status = GetDaemon(first); });
  const grpc::Status second_status = GetDaemon(second);
  caller.join();

  CHECK(first_status.ok());
  CHECK(second_status.ok());
  CHECK(meeting.visits() == 2);
}

}  // namespace
}  // namespace kvpool::test
