#include "server/signal_watch.h"

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/memory/memory.h"

#include "core/check.h"
#include "core/status_macros.h"
#include "server/system_error.h"

namespace kvpool::server {
namespace {

sigset_t EndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

void BlockSignals() {
  const sigset_t signals = EndSignals();
  KVPOOL_CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
  KVPOOL_CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
  KVPOOL_CHECK(signal(SIGCHLD, SIG_DFL) != SIG_ERR);
}

absl::StatusOr<std::unique_ptr<SignalWatch>> SignalWatch::Start(std::function<void(int)> on_first,
                                                                std::function<void()> on_second) {
  KVPOOL_ASSIGN_OR_RETURN(std::unique_ptr<Poller> poller, Poller::Create());
  const sigset_t signals = EndSignals();
  UniqueFd fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.is_valid()) return SystemError("signalfd", errno);
  KVPOOL_RETURN_IF_ERROR(poller->Add(fd.get(), EPOLLIN, /*token=*/0));
  return absl::WrapUnique(
      new SignalWatch(std::move(poller), std::move(fd), std::move(on_first), std::move(on_second)));
}

SignalWatch::SignalWatch(std::unique_ptr<Poller> poller, UniqueFd signals,
                         std::function<void(int)> on_first, std::function<void()> on_second)
    : poller_(std::move(poller)),
      signals_(std::move(signals)),
      on_first_(std::move(on_first)),
      on_second_(std::move(on_second)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

SignalWatch::~SignalWatch() {
  thread_.request_stop();
  poller_->Wake();
}

void SignalWatch::Run(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "kv-signals");
  bool is_first = true;
  while (!stop.stop_requested()) {
    poller_->Wait(std::nullopt);
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      // Without a word to anybody: what holds the first one up may hold that up too.
      if (!is_first) {
        on_second_();
        std::_Exit(128 + signal);
      }
      is_first = false;
      on_first_(signal);
    }
  }
}

}  // namespace kvpool::server
