#pragma once

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "tests/support/child_process.h"

namespace kvpool::questions {

// What a peer answered: a result's number, 0 for success, and what there is beside it: a payload,
// or the failure's name.
struct Reply {
  std::string text = "its process ended";

  bool ok() const { return text == "0" || text.starts_with("0 "); }
  std::string payload() const { return text.size() > 2 ? text.substr(2) : ""; }
};

// Another process on the same GPU: this program again, told what to do by lines (RunPeer). It
// starts at once; the first command waits until it is there. Not thread-safe.
class Peer {
 public:
  struct Options {
    std::optional<uid_t> uid;              // Run as that user (needs root).
    std::optional<pid_t> namespaced_pid;   // Run in namespaces of its own, there with that pid.
    std::vector<std::string> environment;  // NAME=value, before this process's own.
  };

  Peer() : Peer(Options{}) {}
  explicit Peer(const Options& options);

  Reply Do(const std::string& command);
  // Sends a command without waiting for the reply, which Receive does.
  void Send(const std::string& command);
  Reply Receive();

  void Kill() { process_.Kill(); }
  // SIGKILL, without waiting for what comes of it.
  void SignalKill() { process_.Signal(SIGKILL); }
  // Waits until its end of the pipe is closed.
  void AwaitHangup();
  pid_t pid() const { return process_.pid(); }

 private:
  test::ChildProcess process_;
  bool is_there_ = false;
  std::string failure_;  // Why there are no replies any more.
};

// What a peer does, until its stdin ends:
//
//   make SIZE            allocates, and answers the handle
//   free                 frees it
//   open HANDLE          opens another's, and answers its address
//   close                undoes an open
//   leave / enter        has no current context from now on / has it again
//   open_elsewhere HANDLE   opens it in a second context
//   fill VALUE           sets every byte of what was made or opened last
//   peek                 answers its first byte
//   spin MILLISECONDS    starts a kernel that writes to its first 8 bytes all the time
//   fork                 forks a child that keeps what is open of the driver for 10 s
//   attribute NUMBER     answers a device attribute
//   await VALUE          has the stream wait until its first 8 bytes are VALUE or later
//   done                 whether the stream has done everything
//   finish               waits for the stream
//   export_fd SOCKET     allocates memory full of 7 that a file descriptor stands for, and sends it
//   write_read_only      maps memory to be read alone, and writes to it
int RunPeer();

}  // namespace kvpool::questions
