#include "server/ipc_self_test.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "core/check.h"
#include "core/device/ipc_probe.h"
#include "core/error.h"
#include "core/status_macros.h"
#include "core/utf8.h"
#include "server/system_error.h"
#include "server/unique_fd.h"

namespace kvpool::server {
namespace {

// What a region of the daemon's is a multiple of, so that the test is of what workers do.
constexpr uint64_t kRegionBytes = uint64_t{2} << 20;
// More than a probe, or what is said of one, has; less than a pipe takes at once.
constexpr size_t kMaxLineBytes = 4096;
// What the child says that has read the pattern: one that a driver ended by exit code 0 has not.
constexpr char kHasRead[] = "ok";

absl::Status Failed(const Device& device, absl::string_view what, absl::string_view consequence) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDevice},
      absl::StrCat(device.info().uuid, " (", device.info().name, "): ", what, "; ", consequence));
}

absl::Status Untested(const Device& device, const absl::Status& why) {
  return Failed(device, absl::StrCat("CUDA IPC could not be tested: ", std::string(why.message())),
                "workers may be unable to map pools on it");
}

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

absl::StatusOr<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return SystemError("pipe2", errno);
  return Pipe{.read = UniqueFd(ends[0]), .write = UniqueFd(ends[1])};
}

// The first line that is in the pipe, as text that may be sent on. Waits for nothing.
std::string ReadLine(int fd) {
  std::array<char, kMaxLineBytes> bytes{};
  KVPOOL_CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
  const ssize_t count = read(fd, bytes.data(), bytes.size());
  absl::string_view text(bytes.data(), count > 0 ? static_cast<size_t>(count) : 0);
  text = text.substr(0, text.find('\n'));
  return IsUtf8(text) ? std::string(text) : absl::CHexEscape(text);
}

// Starts `program` with that standard input and output, no other descriptors, and no signal
// blocked or ignored. Not by fork: other threads may hold whatever lock there is.
absl::StatusOr<pid_t> Spawn(const std::string& program, int input, int output) {
  std::string path = program;
  std::string argument = kIpcProbeArgument;
  const std::array<char*, 3> arguments = {path.data(), argument.data(), nullptr};
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t files;
  // These fail for want of memory alone.
  KVPOOL_CHECK(posix_spawnattr_init(&attributes) == 0);
  KVPOOL_CHECK(posix_spawn_file_actions_init(&files) == 0);
  KVPOOL_CHECK(posix_spawnattr_setsigmask(&attributes, &none) == 0);
  KVPOOL_CHECK(posix_spawnattr_setsigdefault(&attributes, &all) == 0);
  KVPOOL_CHECK(
      posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF) == 0);
  KVPOOL_CHECK(posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO) == 0);
  KVPOOL_CHECK(posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO) == 0);
  KVPOOL_CHECK(posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1) == 0);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, path.c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return SystemError(absl::StrCat("running ", program), error);
  return pid;
}

// Waits for the end of the child, which remains to be reaped.
absl::Status AwaitEnd(pid_t pid) {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0) {
    if (errno != EINTR) return SystemError("waitid", errno);
  }
  return absl::OkStatus();
}

// How a child ended, and what it said.
struct Outcome {
  bool was_late = false;  // And killed for it.
  int status = 0;         // As waitpid has it.
  std::string line;
};

absl::StatusOr<Outcome> RunChild(const std::string& program, const std::string& input,
                                 Duration deadline) {
  KVPOOL_ASSIGN_OR_RETURN(Pipe in, MakePipe());
  KVPOOL_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  // The pipe is empty and takes it all at once, and this process can read it: no SIGPIPE.
  KVPOOL_CHECK(input.size() < kMaxLineBytes);
  if (write(in.write.get(), input.data(), input.size()) != static_cast<ssize_t>(input.size())) {
    return SystemError("writing to a pipe", errno);
  }
  KVPOOL_ASSIGN_OR_RETURN(const pid_t pid, Spawn(program, in.read.get(), out.write.get()));
  in.write.Reset();

  Outcome outcome;
  // It does not reap the child, whose pid is therefore nobody else's when it is killed.
  std::future<absl::Status> ended = std::async(std::launch::async, AwaitEnd, pid);
  if (ended.wait_for(deadline) == std::future_status::timeout) {
    outcome.was_late = true;
    kill(pid, SIGKILL);
  }
  KVPOOL_RETURN_IF_ERROR(ended.get());
  while (waitpid(pid, &outcome.status, 0) < 0) {
    if (errno != EINTR) return SystemError("waitpid", errno);
  }
  outcome.line = ReadLine(out.read.get());
  return outcome;
}

// What went wrong in the child; empty where nothing did.
std::string WhatFailed(const Outcome& outcome, Duration deadline) {
  const std::string said = outcome.line.empty() ? "" : absl::StrCat(": ", outcome.line);
  if (outcome.was_late) {
    return absl::StrCat("had not done so after ",
                        std::chrono::duration_cast<std::chrono::milliseconds>(deadline).count(),
                        " ms and was killed", said);
  }
  if (WIFSIGNALED(outcome.status)) {
    return absl::StrCat("was ended by signal ", WTERMSIG(outcome.status), said);
  }
  const int code = WEXITSTATUS(outcome.status);
  if (code == EXIT_SUCCESS && outcome.line == kHasRead) return "";
  if (code == EXIT_FAILURE && !outcome.line.empty()) return absl::StrCat("could not", said);
  return absl::StrCat("ended with exit code ", code, said);
}

}  // namespace

absl::Status TestIpc(Device& device, const std::string& program, Duration deadline) {
  absl::StatusOr<std::unique_ptr<Region>> allocated = device.Allocate(kRegionBytes, "ipc-test");
  if (!allocated.ok()) return Untested(device, allocated.status());
  Region& region = **allocated;

  IpcProbe probe{.device_uuid = device.info().uuid,
                 .size_bytes = kRegionBytes,
                 .handle = {region.ipc_handle().begin(), region.ipc_handle().end()}};
  KVPOOL_CHECK(getrandom(&probe.seed, sizeof(probe.seed), 0) ==
               static_cast<ssize_t>(sizeof(probe.seed)));
  const std::vector<std::byte> pattern = IpcPattern(probe.seed, probe.size_bytes);
  const std::array<Extent, 1> whole = {{{.offset_bytes = 0, .size_bytes = kRegionBytes}}};
  std::promise<absl::Status> ending;
  std::future<absl::Status> written = ending.get_future();
  device.Write(region, whole, pattern, [ending = std::move(ending)](absl::Status status) mutable {
    ending.set_value(std::move(status));
  });
  const absl::Status is_written = written.get();
  if (!is_written.ok()) return Untested(device, is_written);

  // On a pipe, for its user alone to see: a command line is anybody's, and who has a handle can
  // map what it opens.
  const absl::StatusOr<Outcome> outcome =
      RunChild(program, absl::StrCat(IpcProbeText(probe), "\n"), deadline);
  if (!outcome.ok()) return Untested(device, outcome.status());
  const std::string failure = WhatFailed(*outcome, deadline);
  if (failure.empty()) return absl::OkStatus();
  return Failed(device,
                absl::StrCat("another process, which was to map its memory by CUDA IPC, ", failure),
                "workers cannot map pools on it until that works");
}

int AnswerIpcProbe() {
  // Of no use to anybody once the daemon is gone, and the driver may hang.
  const pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return EXIT_FAILURE;  // It was gone before it could be heard of.
  std::string line(kMaxLineBytes, '\0');
  const ssize_t count = read(STDIN_FILENO, line.data(), line.size());
  line.resize(count > 0 ? static_cast<size_t>(count) : 0);
  const absl::StatusOr<IpcProbe> probe = ParseIpcProbe(absl::StripSuffix(line, "\n"));
  const absl::Status status = probe.ok() ? RunIpcProbe(*probe) : probe.status();
  const std::string text =
      status.ok() ? kHasRead : absl::StrReplaceAll(std::string(status.message()), {{"\n", " "}});
  std::puts(text.c_str());
  std::fflush(stdout);
  return status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace kvpool::server
