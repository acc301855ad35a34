#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/fake_daemon.h"
#include "tests/support/temp_dir.h"

namespace kvpool::client {
namespace {

TEST_CASE("A forked child is refused at once, and neither it nor its exit harms the parent") {
  const test::TempDir directory;
  const test::FakeDaemon daemon(directory.path().string());
  test::ChildProcess worker({.arguments = {KVPOOL_FORK_HELPER, daemon.socket()},
                             .environment = {},
                             .stderr_path = "",
                             .uid = std::nullopt});
  CHECK(worker.ReadAll() == "ok\n");
  CHECK(worker.Wait() == 0);
  // Only the parent spoke: two sessions, one of them kept, each opened, attached and closed once.
  CHECK(daemon.CallCount("OpenSession") == 2);
  CHECK(daemon.CallCount("KeepAlive") == 2);
  CHECK(daemon.CallCount("CloseSession") == 2);
  CHECK(daemon.SessionCount() == 0);
  CHECK(daemon.FreeCount() == 8);
}

}  // namespace
}  // namespace kvpool::client
