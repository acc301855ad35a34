#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace kvpool::test {

// A program run as a child, with its stdin and stdout on pipes and its stderr in a file. Killed
// and waited for when destroyed, and by the kernel should the test die. Not thread-safe.
class ChildProcess {
 public:
  struct Options {
    std::vector<std::string> arguments;    // The program's path first.
    std::vector<std::string> environment;  // NAME=value, beside the test's own.
    std::string stderr_path;               // Empty: the test's own stderr.
    std::optional<uid_t> uid;              // Run under that uid and gid (needs root).
  };

  explicit ChildProcess(const Options& options);
  ~ChildProcess();

  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  bool IsRunning();

  void Signal(int signal);
  // Waits for its end: the exit code, or 128 + the signal that ended it.
  int Wait();
  // SIGKILL, then Wait.
  int Kill();

  // One line of its stdout without the newline; absent at the end of it. Waits for it.
  std::optional<std::string> ReadLine();
  // All of its stdout that is left. Waits for its end.
  std::string ReadAll();
  void WriteLine(const std::string& line);
  void CloseStdin();

 private:
  // Reads more of stdout; false at its end.
  bool FillBuffer();

  pid_t pid_ = -1;
  std::optional<int> exit_code_;
  int stdin_ = -1;
  int stdout_ = -1;
  std::string buffer_;
};

}  // namespace kvpool::test
