#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/fake_daemon.h"
#include "tests/support/temp_dir.h"

namespace kvpool::client {
namespace {

// Runs a command to its end, its output shown where it fails.
void Run(const std::vector<std::string>& command) {
  test::ChildProcess child(
      {.arguments = command, .environment = {}, .stderr_path = "", .uid = std::nullopt});
  const std::string output = child.ReadAll();
  CAPTURE(command, output);
  REQUIRE(child.Wait() == 0);
}

TEST_CASE("A project elsewhere finds the installed package, builds with it, and uses a daemon") {
  const std::string cmake = KVPOOL_CMAKE;
  const test::TempDir directory;
  const std::string prefix = directory.File("prefix");
  const std::string build = directory.File("build");
  Run({cmake, "--install", KVPOOL_BUILD_DIR, "--prefix", prefix, "--component", "client"});
  Run({cmake, "-S", KVPOOL_CONSUMER_DIR, "-B", build, "-G", "Ninja",
       "-DCMAKE_PREFIX_PATH=" + prefix, std::string("-DCMAKE_CXX_COMPILER=") + KVPOOL_COMPILER,
       "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Wconversion -Werror",
       std::string("-DCMAKE_CXX_COMPILER_LAUNCHER=") + KVPOOL_LAUNCHER});
  Run({cmake, "--build", build});

  // Nothing installed points back to where it was built.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(prefix)) {
    if (entry.path().extension() != ".cmake" && entry.path().extension() != ".h") continue;
    CAPTURE(entry.path());
    Run({"/bin/sh", "-c", "! grep -q '" KVPOOL_SOURCE_DIR "' " + entry.path().string()});
  }

  const test::FakeDaemon daemon(directory.path().string());
  test::ChildProcess consumer({.arguments = {build + "/consumer", daemon.socket()},
                               .environment = {},
                               .stderr_path = "",
                               .uid = std::nullopt});
  CHECK(consumer.ReadAll() == "POOL_FULL\n");
  CHECK(consumer.Wait() == 0);
}

}  // namespace
}  // namespace kvpool::client
