#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <grpcpp/channel.h>

#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace kvpool::test {

// A real kvpoold in a directory of its own, with a worker's and an operator's socket. Killed when
// destroyed. Not thread-safe.
class DaemonProcess {
 public:
  struct Options {
    std::string pools_json = "[]";           // `DaemonConfig.pools`.
    std::string listeners_json{};            // Empty: one worker's and one operator's.
    std::vector<std::string> flags{};        // Beside --config.
    std::vector<std::string> environment{};  // NAME=value.
    bool wait_until_serving = true;
    std::vector<std::string> launcher{};  // A program that runs it, and its arguments.
  };

  DaemonProcess() : DaemonProcess(Options{}) {}
  explicit DaemonProcess(Options options);
  // Ends the test's process, with the log, where a sanitizer has reported something.
  ~DaemonProcess();

  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  // Starts it again in the same directory, after it ended.
  void Start();
  // What its config says of pools from the next Start on.
  void SetPools(const std::string& pools_json);

  // SIGTERM, then its exit code.
  int Stop();

  ChildProcess& process() { return *process_; }
  const TempDir& directory() const { return directory_; }
  std::string worker_socket() const { return "unix:" + directory_.File("worker/kvpool.sock"); }
  std::string operator_socket() const { return "unix:" + directory_.File("operator/kvpool.sock"); }

  // A connection of its own, not shared with others made here.
  std::shared_ptr<grpc::Channel> Connect(const std::string& socket) const;

  // What it has logged so far.
  std::string Log() const;

  size_t CountFds() const;
  size_t CountThreads() const;
  size_t CountMaps() const;
  uint64_t ResidentBytes() const;
  // Resident memory that is its own: the pools' is not in it.
  uint64_t AnonymousBytes() const;

 private:
  void WaitUntilServing() const;

  const Options options_;
  TempDir directory_;
  std::optional<ChildProcess> process_;
};

}  // namespace kvpool::test
