#include "server/ipc_self_test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "server/unique_fd.h"
#include "tests/support/child_process.h"
#include "tests/support/open_fds.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/cuda/fixture.h"
#include "tests/unit/cuda/says.h"

namespace kvpool::server {
namespace {

using cuda::CheckRefused;

constexpr std::chrono::minutes kPatience{4};

// A variable of this process's environment, for a scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), /*overwrite=*/1);
  }
  ~Variable() { unsetenv(name_); }

  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// A fake GPU of this process, and what other processes see it by. Checks that tests leave no
// child, no descriptor and no memory.
class SelfTest {
 public:
  SelfTest() {
    gpu_.device();
    fds_ = test::OpenFdCount();
    allocations_ = fakecuda_live("allocation");
  }
  ~SelfTest() {
    CHECK(waitpid(-1, nullptr, WNOHANG) == -1);
    CHECK(errno == ECHILD);
    CHECK(test::OpenFdCount() == fds_);
    CHECK(fakecuda_live("allocation") == allocations_);
  }

  SelfTest(const SelfTest&) = delete;
  SelfTest& operator=(const SelfTest&) = delete;

  absl::Status Run(const std::string& program, Duration deadline = kPatience) {
    return TestIpc(gpu_.device(), program, deadline);
  }
  // With a shell's script in the place of the daemon.
  absl::Status RunScript(const std::string& script, Duration deadline = kPatience) {
    const std::string path = scripts_.File("script");
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return Run(path, deadline);
  }
  const std::string& uuid() { return gpu_.device().info().uuid; }

 private:
  // Not in the driver's own directory, which it clears of what it does not know.
  const test::TempDir scripts_;
  cuda::FakeGpu gpu_;
  const Variable library_{"KVPOOL_LIBCUDA", FAKECUDA_LIBRARY};
  const Variable directory_{"FAKECUDA_DIR", gpu_.fresh().directory()};
  ptrdiff_t fds_ = 0;
  uint64_t allocations_ = 0;
};

void CheckFailed(SelfTest& test, const absl::Status& status,
                 std::initializer_list<const char*> words) {
  CheckRefused(status, absl::StatusCode::kFailedPrecondition, Reason::kDevice, words);
  const std::string message(status.message());
  CAPTURE(message);
  CHECK(message.find(test.uuid()) == 0);
}

TEST_CASE("CUDA IPC is fine where another kvpoold reads what this process wrote") {
  SelfTest test;
  CHECK(test.Run(KVPOOL_KVPOOLD).ok());
  CHECK(test.Run(KVPOOL_KVPOOLD).ok());
}

TEST_CASE("CUDA IPC fails where the other process cannot open the handle, for the reason it has") {
  SelfTest test;
  CheckFailed(test,
              test.RunScript("export FAKECUDA_FAIL=cuIpcOpenMemHandle:0:205\nexec " KVPOOL_KVPOOLD
                             " \"$@\""),
              {"could not: ", "cuIpcOpenMemHandle", "(205)", "workers cannot map"});
}

TEST_CASE("CUDA IPC fails where the other process has no driver, or no such device") {
  SelfTest test;
  CheckFailed(
      test,
      test.RunScript("export KVPOOL_LIBCUDA=/nowhere/libcuda.so\nexec " KVPOOL_KVPOOLD " \"$@\""),
      {"could not: ", "/nowhere/libcuda.so"});
  CheckFailed(
      test, test.RunScript("export CUDA_VISIBLE_DEVICES=GPU-none\nexec " KVPOOL_KVPOOLD " \"$@\""),
      {"could not: "});
}

TEST_CASE("CUDA IPC fails where the other process reads other bytes") {
  SelfTest test;
  CheckFailed(test,
              test.RunScript("IFS=: read -r uuid size seed handle\n"
                             "echo \"$uuid:$size:1:$handle\" | " KVPOOL_KVPOOLD " \"$@\""),
              {"could not: ", "of 2097152 shared bytes", "from byte 0 on"});
}

TEST_CASE("A process that does not end in time is killed, and said to have been") {
  SelfTest test;
  CheckFailed(test, test.RunScript("exec sleep 10000", std::chrono::milliseconds(20)),
              {"had not done so after 20 ms and was killed"});
}

TEST_CASE("A process that dies of a signal, whatever the daemon blocks, is said to have") {
  SelfTest test;
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  REQUIRE(pthread_sigmask(SIG_BLOCK, &blocked, nullptr) == 0);
  const absl::Status status = test.RunScript("echo bye\nkill -TERM $$");
  REQUIRE(pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr) == 0);
  CheckFailed(test, status, {"was ended by signal 15: bye"});
}

TEST_CASE("A process that ends in another way is said to have, whatever it says") {
  SelfTest test;
  CheckFailed(test, test.RunScript("exit 1"), {"ended with exit code 1;"});
  // As a driver may end it that gives up.
  CheckFailed(test, test.RunScript("exit 0"), {"ended with exit code 0;"});
  CheckFailed(test, test.RunScript("echo one\necho two\nexit 77"),
              {"ended with exit code 77: one;"});
  CheckFailed(test, test.RunScript("printf 'a\\377\\n'\nexit 1"), {"could not: a\\xff;"});
}

TEST_CASE("CUDA IPC could not be tested where the program cannot be run") {
  SelfTest test;
  CheckFailed(test, test.Run("/nowhere/kvpoold"),
              {"could not be tested: running /nowhere/kvpoold: No such file", "may be unable"});
}

TEST_CASE("CUDA IPC could not be tested where there is no memory, or it cannot be written") {
  SelfTest test;
  fakecuda_set("FAKECUDA_FAIL", "cuMemAlloc:0:2");
  CheckFailed(test, test.Run(KVPOOL_KVPOOLD), {"could not be tested: ", "may be unable"});
  fakecuda_set("FAKECUDA_FAIL", "cuMemcpyAsync:0:1");
  CheckFailed(test, test.Run(KVPOOL_KVPOOLD), {"could not be tested: ", "may be unable"});
  fakecuda_set("FAKECUDA_FAIL", nullptr);
  CHECK(test.Run(KVPOOL_KVPOOLD).ok());
}

TEST_CASE("The other process has the standard streams alone, and a command line without secrets") {
  SelfTest test;
  const UniqueFd inherited(open("/dev/null", O_RDONLY));  // Not close-on-exec.
  REQUIRE(inherited.get() > STDERR_FILENO);
  // What reads the directory has it open as well.
  CheckFailed(test, test.RunScript("echo \"$#\" \"$1\" $(ls /proc/self/fd)\nexit 1"),
              {"could not: 1 --ipc_probe 0 1 2 3;"});
}

TEST_CASE("kvpoold as the other process says in a line what it cannot make out") {
  test::ChildProcess child({.arguments = {KVPOOL_KVPOOLD, "--ipc_probe"},
                            .environment = {},
                            .stderr_path = {},
                            .uid = {}});
  child.WriteLine("GPU-0:12:x:00");
  CHECK(child.ReadAll() == "IPC probe: the seed is \"x\"\n");
  CHECK(child.Wait() == 1);
}

}  // namespace
}  // namespace kvpool::server
