// kvpoold: the daemon's command line.

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include <spdlog/spdlog.h>

#include "core/status_macros.h"
#include "server/config.h"
#include "server/daemon.h"
#include "server/ipc_self_test.h"
#include "server/large_pid.h"
#include "server/logging.h"
#include "server/pool_clock.h"
#include "server/signal_watch.h"

ABSL_FLAG(std::string, config, "",
          "JSON of kvpool.v1.DaemonConfig: the pools to make and the sockets to listen on. Without "
          "it: no pools, and the default sockets");
ABSL_FLAG(std::string, log_level, "info",
          "trace, debug, info, warning, error, critical or off; the log goes to stderr");
ABSL_FLAG(absl::Duration, keepalive, absl::Seconds(10),
          "how often each connection is pinged, and how long an answer may take; 100ms to 1h");
ABSL_FLAG(absl::Duration, memory_wait, absl::Seconds(60),
          "how long pools of the config that would fit, but for what others use just now, are "
          "tried again before the start fails");
ABSL_FLAG(absl::Duration, reclaim_delay, absl::Seconds(2),
          "where the kernel gives no pidfd of a process: how long after its last connection closed "
          "it counts as gone");
ABSL_FLAG(absl::Duration, drain_deadline, absl::Seconds(30),
          "how long SIGTERM waits for open sessions");
ABSL_FLAG(
    double, clock_rate, 1,
    "for tests: time passes so many times as fast for what is in the pools, which is deadlines "
    "and what the eviction policy sees; 1 to 100000");

namespace kvpool::server {
namespace {

// What calls that are left and the freeing of memory may take, once all is drained.
constexpr std::chrono::seconds kEndLimit{5};

// The only value that turns such a switch on is "1".
bool IsOn(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && absl::string_view(value) == "1";
}

absl::StatusOr<Duration> CheckDuration(absl::string_view flag, absl::Duration value,
                                       absl::Duration least, absl::Duration most) {
  if (value < least || value > most) {
    return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", absl::FormatDuration(value),
                                                   " is not between ", absl::FormatDuration(least),
                                                   " and ", absl::FormatDuration(most)));
  }
  return std::chrono::duration_cast<Duration>(absl::ToChronoNanoseconds(value));
}

absl::StatusOr<DaemonOptions> ReadOptions() {
  DaemonOptions options{.config = {}, .version = KVPOOL_VERSION};
  const std::string path = absl::GetFlag(FLAGS_config);
  if (path.empty()) {
    options.config = DefaultConfig(geteuid(), std::getenv("XDG_RUNTIME_DIR"));
  } else {
    KVPOOL_ASSIGN_OR_RETURN(options.config, LoadConfig(path));
  }
  KVPOOL_ASSIGN_OR_RETURN(options.keepalive,
                          CheckDuration("keepalive", absl::GetFlag(FLAGS_keepalive),
                                        absl::Milliseconds(100), absl::Hours(1)));
  KVPOOL_ASSIGN_OR_RETURN(options.memory_wait,
                          CheckDuration("memory_wait", absl::GetFlag(FLAGS_memory_wait),
                                        absl::ZeroDuration(), absl::Hours(24)));
  KVPOOL_ASSIGN_OR_RETURN(options.reclaim_delay,
                          CheckDuration("reclaim_delay", absl::GetFlag(FLAGS_reclaim_delay),
                                        absl::ZeroDuration(), absl::Hours(1)));
  KVPOOL_ASSIGN_OR_RETURN(options.drain_deadline,
                          CheckDuration("drain_deadline", absl::GetFlag(FLAGS_drain_deadline),
                                        absl::ZeroDuration(), absl::Hours(24)));
  options.clock_rate = absl::GetFlag(FLAGS_clock_rate);
  if (!(options.clock_rate >= 1 && options.clock_rate <= PoolClock::kMaxRate)) {
    return absl::InvalidArgumentError(absl::StrCat("--clock_rate=", options.clock_rate,
                                                   " is not between 1 and ", PoolClock::kMaxRate));
  }
  options.probe_program = "/proc/self/exe";
  options.trace = IsOn("KVPOOL_KV_TRACE");
  options.poison = IsOn("KVPOOL_KV_POISON");
  return options;
}

// For who started the daemon, whatever the log level.
int Fail(const absl::Status& status) {
  const std::string line = absl::StrCat("kvpoold: ", std::string(status.message()), "\n");
  std::fputs(line.c_str(), stderr);
  return EXIT_FAILURE;
}

// Ends the process where it is, the sockets being gone: what hangs cannot be waited for.
[[noreturn]] void EndHere(const char* what, int code) {
  spdlog::info("event=stopped during={}", what);
  StopLogging();
  std::_Exit(code);
}

// Serves until a signal comes. Ends the process itself where a pool is still being made then, or
// what is under way does not end.
absl::Status Serve(DaemonOptions options) {
  KVPOOL_ASSIGN_OR_RETURN(std::unique_ptr<Daemon> daemon, Daemon::Start(std::move(options)));
  KVPOOL_ASSIGN_OR_RETURN(std::unique_ptr<SignalWatch> signals,
                          SignalWatch::Start(
                              [&daemon](int signal) {
                                spdlog::info("event=signal signal={}", signal);
                                daemon->RequestStop();
                              },
                              [&daemon] { daemon->RemoveSockets(); }));
  const Daemon::Outcome outcome = daemon->Run();
  if (outcome.has_hung_start) EndHere("start", EXIT_SUCCESS);
  signals.reset();
  std::packaged_task<void()> end([&daemon] { daemon.reset(); });
  const std::future<void> ended = end.get_future();
  std::thread ending(std::move(end));
  if (ended.wait_for(kEndLimit) != std::future_status::ready) {
    if (!outcome.status.ok()) Fail(outcome.status);
    EndHere("end", outcome.status.ok() ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  ending.join();
  return outcome.status;
}

// Standard streams that are closed would be the daemon's own files, and its log would go there.
void OpenStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) == -1) open("/dev/null", O_RDWR);
  }
}

void LogPidMove(const absl::StatusOr<std::optional<PidMove>>& move) {
  if (!move.ok()) {
    spdlog::warn(
        "event=pid_not_moved pid={} error={}", getpid(),
        LogText(absl::StrCat(std::string(move.status().message()),
                             "; workers that have this pid in another container cannot map GPU "
                             "memory")));
  } else if (move->has_value()) {
    spdlog::info("event=pid_moved old={} new={}", (*move)->old_pid, (*move)->new_pid);
  }
}

int Main() {
  const absl::StatusOr<spdlog::level::level_enum> level =
      ParseLogLevel(absl::GetFlag(FLAGS_log_level));
  if (!level.ok()) return Fail(level.status());
  absl::StatusOr<DaemonOptions> options = ReadOptions();
  if (!options.ok()) return Fail(options.status());

  // Before there are threads, and before CUDA has seen the pid.
  const absl::StatusOr<std::optional<PidMove>> move = MoveToLargePid();
  StartLogging(STDERR_FILENO, *level);
  LogPidMove(move);
  const absl::Status status = Serve(*std::move(options));
  if (status.ok()) spdlog::info("event=stopped");
  StopLogging();
  return status.ok() ? EXIT_SUCCESS : Fail(status);
}

}  // namespace
}  // namespace kvpool::server

int main(int argc, char** argv) {
  kvpool::server::OpenStandardStreams();
  if (argc == 2 && absl::string_view(argv[1]) == kvpool::server::kIpcProbeArgument) {
    return kvpool::server::AnswerIpcProbe();
  }
  kvpool::server::BlockSignals();
  // gRPC locks several of its own mutexes a call, and abseil as distributions build it looks for
  // cycles at each.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  absl::SetProgramUsageMessage(
      "owns paged KV-cache memory and shares it with workers over unix sockets");
  // The flags that --help shows: ours, which are all in this file.
  static constexpr absl::string_view kOurs = "kvpoold";
  const auto is_ours = [](absl::string_view file) { return file == kOurs; };
  absl::SetFlagsUsageConfig({.contains_helpshort_flags = is_ours,
                             .contains_help_flags = is_ours,
                             .contains_helppackage_flags = {},
                             .version_string = [] { return "kvpoold " KVPOOL_VERSION "\n"; },
                             .normalize_filename =
                                 [](absl::string_view file) {
                                   return std::string(
                                       absl::EndsWith(file, "server/main.cc") ? kOurs : file);
                                 }});
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  if (rest.size() > 1) {
    return kvpool::server::Fail(
        absl::InvalidArgumentError(absl::StrCat("unexpected argument '", rest[1], "'")));
  }
  return kvpool::server::Main();
}
