// What becomes of memory and of kernels when their processes are killed.
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "tests/gpu/questions/peer.h"
#include "tests/gpu/questions/question.h"
#include "tests/gpu/questions/sharing.h"
#include "tests/support/temp_dir.h"

namespace kvpool::questions {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr absl::string_view kSpin = "spin 2000";

std::optional<uint64_t> ReadCounter(const Gpu& gpu, DevicePointer counter) {
  uint64_t value = 0;
  if (gpu.Read(counter, &value, sizeof(value)) != Result::kSuccess) return std::nullopt;
  return value;
}

// The counter when it has not been `before` for the first time; nothing where it is for that long.
std::optional<uint64_t> ReadNext(const Gpu& gpu, DevicePointer counter, uint64_t before,
                                 std::chrono::milliseconds within) {
  const auto end = Clock::now() + within;
  while (Clock::now() < end) {
    const auto value = ReadCounter(gpu, counter);
    if (!value.has_value()) return std::nullopt;
    if (*value != before) return value;
  }
  return std::nullopt;
}

// How long a spinning kernel goes on from now, by its own clock; nothing where it does not.
std::optional<Milliseconds> AwaitStandstill(const Gpu& gpu, DevicePointer counter) {
  const auto first = ReadCounter(gpu, counter);
  auto last = first;
  while (last.has_value()) {
    const auto next = ReadNext(gpu, counter, *last, std::chrono::milliseconds(100));
    if (!next.has_value()) break;
    last = next;
  }
  if (!first.has_value() || last == first) return std::nullopt;
  return std::chrono::nanoseconds(*last - *first);
}

// Kills a client whose kernel writes to the counter all the time, and says what is seen when.
void SayDeath(const Gpu& gpu, Peer& client, DevicePointer counter) {
  pollfd process{.fd = static_cast<int>(syscall(SYS_pidfd_open, client.pid(), 0)),
                 .events = POLLIN,
                 .revents = 0};
  const auto begin = Clock::now();
  client.SignalKill();
  client.AwaitHangup();
  const Milliseconds to_hangup = Clock::now() - begin;
  const bool is_gone = process.fd >= 0 && poll(&process, 1, 15'000) == 1;
  const Milliseconds to_gone = Clock::now() - begin;
  const auto went_on = AwaitStandstill(gpu, counter);
  if (process.fd >= 0) close(process.fd);
  Say(absl::StrFormat("its pipe ends %.2f ms after SIGKILL", to_hangup.count()));
  if (!is_gone) return Say("its pidfd does not become readable");
  Say(absl::StrFormat("its pidfd is readable %.2f ms after that", (to_gone - to_hangup).count()));
  Say(went_on.has_value()
          ? absl::StrFormat("its kernel goes on for %.1f ms from then", went_on->count())
          : std::string("its kernel has stopped by then"));
}

// Has a client run the kernel; false, saying why, where it does not.
bool StartsToSpin(const Gpu& gpu, Peer& client, const SharedPage& page) {
  const Reply spins = client.Do(std::string(kSpin));
  if (!spins.ok()) {
    SayNotAsked("a kernel that runs for 2 s does not start: " + spins.text);
    return false;
  }
  if (ReadNext(gpu, page.address(), 0, std::chrono::milliseconds(1500)).has_value()) return true;
  Say("the kernel of the other process does not get to run");
  return false;
}

// The program's path; nothing where there is none of that name.
std::string FindProgram(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "/usr/bin" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    const std::string program = directory + "/" + name;
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

// An MPS of this process's own, in a directory of its own: what else there is on the machine is
// left alone.
class Mps {
 public:
  explicit Mps(const std::string& program)
      : program_(program),
        environment_({"CUDA_MPS_PIPE_DIRECTORY=" + directory_.path().string(),
                      "CUDA_MPS_LOG_DIRECTORY=" + directory_.path().string()}),
        control_({.arguments = {program_, "-f"},
                  .environment = environment_,
                  .stderr_path = "/dev/null",
                  .uid = {}}) {}
  ~Mps() {
    if (!control_.IsRunning()) return;
    test::ChildProcess quit({.arguments = {program_},
                             .environment = environment_,
                             .stderr_path = "/dev/null",
                             .uid = {}});
    quit.WriteLine("quit -t 1");
    quit.CloseStdin();
    quit.Wait();
  }

  Mps(const Mps&) = delete;
  Mps& operator=(const Mps&) = delete;

  // Whether it takes clients, after a while.
  bool IsThere() {
    const auto end = Clock::now() + std::chrono::seconds(5);
    while (Clock::now() < end && control_.IsRunning()) {
      if (std::filesystem::exists(directory_.File("control"))) return true;
    }
    return false;
  }
  // What makes a process its client.
  const std::vector<std::string>& environment() const { return environment_; }

 private:
  const test::TempDir directory_;
  const std::string program_;
  const std::vector<std::string> environment_;
  test::ChildProcess control_;
};

}  // namespace

void AskMps() {
  const std::string program = FindProgram("nvidia-cuda-mps-control");
  if (program.empty()) return SayNotAsked("there is no nvidia-cuda-mps-control");
  // This process stays outside of any.
  setenv("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent", /*overwrite=*/1);
  const auto gpu = Gpu::OpenOrSay();
  if (gpu == nullptr) return;
  Mps mps(program);
  if (!mps.IsThere()) return SayNotAsked("nvidia-cuda-mps-control does not start");
  Peer victim({.uid = {}, .namespaced_pid = {}, .environment = mps.environment()});
  Peer other({.uid = {}, .namespaced_pid = {}, .environment = mps.environment()});
  constexpr int kMpsEnabled = 133;  // CU_DEVICE_ATTRIBUTE_MPS_ENABLED
  Say("MPS, for a client: " + victim.Do(absl::StrCat("attribute ", kMpsEnabled)).text);
  const SharedPage page(*gpu, kPage);
  if (!page.Open(victim) || !page.Open(other)) return;
  Say("both clients open memory of a process outside");
  if (!StartsToSpin(*gpu, victim, page)) return;
  SayDeath(*gpu, victim, page.address());
  Say("then the other client's read: " + other.Do("peek").text);
  uint8_t byte = 0;
  Say("and the outsider's: " + gpu->Text(gpu->Read(page.address(), &byte, 1)));
}

void AskKilledExporter() {
  constexpr uint64_t kSize = 32 * kPage;
  const auto gpu = Gpu::OpenOrSay();
  if (gpu == nullptr) return;
  Peer exporter;
  Peer importer;
  Peer late;
  late.Do("done");  // Its context is there before anything is measured.
  const Reply made = exporter.Do(absl::StrCat("make ", kSize));
  if (!made.ok()) return Say("the exporter's cuMemAlloc: " + made.text);
  exporter.Do("fill 7");
  const std::string open = "open " + made.payload();
  const Reply opened = importer.Do(open);
  if (!opened.ok()) return Say("open: " + opened.text);

  exporter.Kill();
  const uint64_t free_after_death = gpu->FreeBytes();
  const Reply peeked = importer.Do("peek");
  Say(peeked.text == "0 7" ? "an importer reads on" : "an importer's read: " + peeked.text);
  Say("a new open: " + late.Do(open).text);
  const Reply closed = importer.Do("close");
  const uint64_t free_after_close = gpu->FreeBytes();
  Say(absl::StrCat("the importer's close (", closed.text, ") frees ",
                   MibBetween(free_after_death, free_after_close), " of 64"));
  Say("an open after it: " + late.Do(open).text);
}

void AskKilledKernel() {
  const auto gpu = Gpu::OpenOrSay();
  if (gpu == nullptr) return;
  Peer client;
  const SharedPage page(*gpu, kPage);
  if (!page.Open(client) || !StartsToSpin(*gpu, client, page)) return;
  SayDeath(*gpu, client, page.address());

  Peer parent;
  const SharedPage another(*gpu, kPage);
  if (!another.Open(parent) || !StartsToSpin(*gpu, parent, another)) return;
  const Reply forked = parent.Do("fork");
  if (!forked.ok()) return SayNotAsked(forked.text);
  Say("of one whose forked child lives on:");
  SayDeath(*gpu, parent, another.address());
}

}  // namespace kvpool::questions
