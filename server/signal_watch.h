#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"

#include "server/poller.h"
#include "server/unique_fd.h"

namespace kvpool::server {

// Keeps SIGTERM and SIGINT from ending the process, and SIGPIPE from coming at all. Children can be
// waited for, even if whoever started this ignores theirs. Called before the first thread is
// started, which inherits it.
void BlockSignals();

// SignalWatch calls `on_first` on a thread of its own at the first SIGTERM or SIGINT, also one that
// came since BlockSignals. At the second it calls `on_second`, which must not wait for anything,
// and ends the process at once, with 128 + the signal as its code.
class SignalWatch {
 public:
  // RESOURCE_EXHAUSTED where the kernel gives no more descriptors.
  static absl::StatusOr<std::unique_ptr<SignalWatch>> Start(std::function<void(int)> on_first,
                                                            std::function<void()> on_second);
  ~SignalWatch();

  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  SignalWatch(std::unique_ptr<Poller> poller, UniqueFd signals, std::function<void(int)> on_first,
              std::function<void()> on_second);

  void Run(const std::stop_token& stop);

  const std::unique_ptr<Poller> poller_;
  const UniqueFd signals_;
  const std::function<void(int)> on_first_;
  const std::function<void()> on_second_;
  std::jthread thread_;  // Last: it uses the others.
};

}  // namespace kvpool::server
