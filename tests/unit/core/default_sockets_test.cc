#include "core/default_sockets.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

namespace kvpool {
namespace {

TEST_CASE("The default sockets lie where their user alone can make them") {
  const DefaultSockets root = FindDefaultSockets(0, "/run/user/0");
  CHECK(root.worker_path == "/run/kvpool/worker/kvpool.sock");
  CHECK(root.operator_path == "/run/kvpool/operator/kvpool.sock");
  CHECK(root.private_directory.empty());

  const DefaultSockets user = FindDefaultSockets(1000, "/run/user/1000");
  CHECK(user.worker_path == "/run/user/1000/kvpool/worker/kvpool.sock");
  CHECK(user.operator_path == "/run/user/1000/kvpool/operator/kvpool.sock");
  CHECK(user.private_directory.empty());

  // Anybody can make names in /tmp.
  for (const char* runtime_directory : {static_cast<const char*>(nullptr), "", "relative"}) {
    const DefaultSockets bare = FindDefaultSockets(1000, runtime_directory);
    CHECK(bare.worker_path == "/tmp/kvpool-1000/worker/kvpool.sock");
    CHECK(bare.operator_path == "/tmp/kvpool-1000/operator/kvpool.sock");
    CHECK(bare.private_directory == "/tmp/kvpool-1000");
  }
}

TEST_CASE("A private directory is its user's own and nobody else's to write, or not there yet") {
  const test::TempDir directory;
  const std::string path = directory.File("private");
  CHECK(CheckPrivateDirectory(path, geteuid()).ok());
  REQUIRE(mkdir(path.c_str(), 0700) == 0);
  CHECK(CheckPrivateDirectory(path, geteuid()).ok());

  CHECK(absl::IsFailedPrecondition(CheckPrivateDirectory(path, geteuid() + 1)));
  REQUIRE(chmod(path.c_str(), 0770) == 0);
  CHECK(absl::IsFailedPrecondition(CheckPrivateDirectory(path, geteuid())));
  REQUIRE(chmod(path.c_str(), 0700) == 0);
  const std::string link = directory.File("link");
  std::filesystem::create_directory_symlink(path, link);
  CHECK(absl::IsFailedPrecondition(CheckPrivateDirectory(link, geteuid())));
  // A name that is too long is an error of its own.
  const absl::Status too_long = CheckPrivateDirectory(directory.File(std::string(300, 'x')), 0);
  CHECK_FALSE(too_long.ok());
  CHECK_FALSE(absl::IsFailedPrecondition(too_long));
}

}  // namespace
}  // namespace kvpool
