#include "client/fork_guard.h"

#include <pthread.h>

#include <atomic>

#include "core/check.h"
#include "core/error.h"

namespace kvpool::client {
namespace {

// How many forks lie between the first process and this one. Global, as a process is.
constinit std::atomic<uint64_t> fork_count{0};

void CountFork() { fork_count.fetch_add(1, std::memory_order_relaxed); }

bool RegisterForkHandler() {
  KVPOOL_CHECK(pthread_atfork(nullptr, nullptr, CountFork) == 0);
  return true;
}

}  // namespace

ForkGuard::ForkGuard() {
  static const bool is_registered = RegisterForkHandler();
  KVPOOL_CHECK(is_registered);
  fork_count_ = fork_count.load(std::memory_order_relaxed);
}

bool ForkGuard::is_in_child() const {
  return fork_count.load(std::memory_order_relaxed) != fork_count_;
}

absl::Status ForkGuard::Check() const {
  if (!is_in_child()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, {},
                   "this process was forked from the one that opened the session");
}

}  // namespace kvpool::client
