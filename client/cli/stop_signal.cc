#include "client/cli/stop_signal.h"

#include <pthread.h>
#include <signal.h>

#include "core/check.h"

namespace kvpool::cli {

StopSignal::StopSignal() {
  KVPOOL_CHECK(sigemptyset(&signals_) == 0);
  KVPOOL_CHECK(sigaddset(&signals_, SIGINT) == 0);
  KVPOOL_CHECK(sigaddset(&signals_, SIGTERM) == 0);
  KVPOOL_CHECK(pthread_sigmask(SIG_BLOCK, &signals_, &before_) == 0);
  thread_ = std::jthread([this] { Wait(); });
}

StopSignal::~StopSignal() {
  // Ends its wait, where nothing has: the signal is this thread's alone.
  pthread_kill(thread_.native_handle(), SIGINT);
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopSignal::Wait() {
  int signal = 0;
  KVPOOL_CHECK(sigwait(&signals_, &signal) == 0);
  stop_.request_stop();
}

}  // namespace kvpool::cli
