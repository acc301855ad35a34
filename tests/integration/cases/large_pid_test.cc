#include "server/large_pid.h"

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/support/log_lines.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/daemon_process.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

std::vector<std::string> Container() {
  return {"/usr/bin/unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child"};
}

bool CanHaveContainers() {
  std::vector<std::string> arguments = Container();
  arguments.emplace_back("/bin/true");
  ChildProcess probe(
      {.arguments = arguments, .environment = {}, .stderr_path = "/dev/null", .uid = {}});
  return probe.Wait() == 0;  // Not root, or not permitted.
}

std::vector<pid_t> Numbers(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::vector<pid_t> numbers;
  std::string word;
  while (!name.empty() && file >> word && word != name) {
  }
  for (pid_t number = 0; file >> number;) numbers.push_back(number);
  return numbers;
}

// The children of a process with one thread, as this process sees them.
std::vector<pid_t> ChildrenOf(pid_t pid) {
  const std::string directory = "/proc/" + std::to_string(pid);
  return Numbers(directory + "/task/" + std::to_string(pid) + "/children", "");
}

// What a process calls itself.
pid_t OwnPid(pid_t pid) {
  return Numbers("/proc/" + std::to_string(pid) + "/status", "NSpid:").back();
}

// Whether it runs no more, also where nobody has waited for it.
bool HasEnded(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    if (word == "State:") return status >> word && word == "Z";
  }
  return true;
}

// A daemon as a container's first process.
class Contained {
 public:
  explicit Contained(const std::vector<std::string>& environment)
      : daemon_({.environment = environment, .launcher = Container()}) {
    const std::vector<pid_t> firsts = ChildrenOf(daemon_.process().pid());
    REQUIRE(firsts.size() == 1);
    first_ = firsts[0];
    REQUIRE(OwnPid(first_) == 1);
  }

  // Processes as this one sees them.
  pid_t first() const { return first_; }
  std::vector<pid_t> ChildrenOfFirst() const { return ChildrenOf(first_); }

  // What the container's first process ended with.
  int Wait() { return daemon_.process().Wait(); }
  std::string Log() const { return daemon_.Log(); }

 private:
  DaemonProcess daemon_;
  pid_t first_ = 0;
};

std::vector<std::string> WithCuda() { return {"KVPOOL_LIBCUDA=" KVPOOL_TEST_LIBCUDA}; }

TEST_CASE("The first process of a container serves under a large pid, and ends by SIGTERM with 0") {
  if (!CanHaveContainers()) return;
  Contained container(WithCuda());
  const std::vector<pid_t> children = container.ChildrenOfFirst();
  REQUIRE(children.size() == 1);
  const pid_t pid = OwnPid(children[0]);
  CHECK(pid >= 4096);
  CHECK(CountLines(container.Log(), {"event=pid_moved old=1 new=" + std::to_string(pid)}) == 1);
  kill(container.first(), SIGTERM);
  CHECK(container.Wait() == 0);
  CHECK(CountLines(container.Log(), {"event=stopped"}) == 1);
}

TEST_CASE("The first process of a container ends as the daemon that it moved to ends") {
  if (!CanHaveContainers()) return;
  Contained container(WithCuda());
  REQUIRE(container.ChildrenOfFirst().size() == 1);
  kill(container.ChildrenOfFirst()[0], SIGKILL);
  CHECK(container.Wait() == 128 + SIGKILL);
}

TEST_CASE("A daemon under a large pid does not outlive the process that it moved from") {
  if (!CanHaveContainers()) return;
  // One that is not the first of its container, whose end is the end of all.
  DaemonProcess daemon(
      {.environment = WithCuda(),
       .launcher = {"/usr/bin/unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh",
                    "-c", "\"$@\" & wait; read -r x", "sh"}});
  const pid_t shell = ChildrenOf(daemon.process().pid()).at(0);
  const pid_t parent = ChildrenOf(shell).at(0);
  REQUIRE(OwnPid(parent) < 1024);
  const pid_t child = ChildrenOf(parent).at(0);
  REQUIRE(OwnPid(child) >= 4096);
  kill(parent, SIGKILL);
  CHECK(Eventually([&] { return HasEnded(child); }));
  CHECK(daemon.process().IsRunning());
}

TEST_CASE("A second SIGTERM reaches the daemon too, and the first process ends with what it does") {
  if (!CanHaveContainers()) return;
  Contained container(WithCuda());
  const pid_t daemon = container.ChildrenOfFirst().at(0);
  kill(daemon, SIGSTOP);
  kill(container.first(), SIGTERM);
  kill(container.first(), SIGINT);
  // Both wait in the daemon, which takes them one after the other.
  REQUIRE(Eventually([&] {
    std::ifstream status("/proc/" + std::to_string(daemon) + "/status");
    for (std::string word; status >> word;) {
      if (word != "ShdPnd:") continue;
      status >> word;
      const uint64_t pending = std::stoull(word, nullptr, 16);
      return (pending >> (SIGTERM - 1) & 1) == 1 && (pending >> (SIGINT - 1) & 1) == 1;
    }
    return false;
  }));
  kill(daemon, SIGCONT);
  const int code = container.Wait();
  CHECK((code == 128 + SIGTERM || code == 128 + SIGINT));
}

TEST_CASE("Without a CUDA driver, and where it is large already, the pid stays") {
  if (std::filesystem::exists("/dev/nvidiactl") || !CanHaveContainers()) return;
  {
    const Contained container({"KVPOOL_LIBCUDA="});
    CHECK(container.ChildrenOfFirst().empty());
    CHECK(CountLines(container.Log(), {"event=pid_"}) == 0);
  }
  DaemonProcess daemon({.environment = WithCuda()});
  if (daemon.process().pid() < 1024) return;
  CHECK(CountLines(daemon.Log(), {"event=pid_"}) == 0);
}

TEST_CASE("A large pid is one of those that there are") {
  for (const uint32_t random : {0U, 1U, 19'999U, 20'000U, 20'001U, ~0U}) {
    CAPTURE(random);
    for (const int64_t pid_max : {5'121, 6'000, 32'768, 4'194'304}) {
      const auto pid = server::ChooseLargePid(pid_max, random);
      REQUIRE(pid.ok());
      CHECK(*pid >= 4096);
      CHECK(*pid <= 24'096);
      CHECK(*pid <= pid_max - 1024);
    }
  }
  CHECK(server::ChooseLargePid(4'194'304, 20'000).value() == 24'096);
  CHECK(server::ChooseLargePid(4'194'304, 20'001).value() == 4096);
  CHECK(server::ChooseLargePid(5'120, 0).status().code() == absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace kvpool::test
