#pragma once

#include <csignal>
#include <stop_token>
#include <thread>

namespace kvpool::cli {

// While it lives, SIGINT and SIGTERM do not kill the process: they ask for a stop. To be made
// before other threads are, which then leave these signals to it.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();

  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  std::stop_token token() const { return stop_.get_token(); }

 private:
  void Wait();

  sigset_t signals_{};
  sigset_t before_{};
  std::stop_source stop_;
  std::jthread thread_;
};

}  // namespace kvpool::cli
