#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/mutex.h"

namespace kvpool::test {

// Calls on one connection that send one message each and stay open. All are broken off when it is
// destroyed. Not thread-safe.
class HeldStreams {
 public:
  struct Options {
    std::string address;
    std::string method;
    std::string message;
    // Whether the caller's side says that the message was the last, as a unary call's must.
    bool is_last = false;
    size_t count = 0;
  };

  // Starts the calls; those that the connection has no room for wait for it on this side.
  explicit HeldStreams(const Options& options);
  ~HeldStreams();

  HeldStreams(const HeldStreams&) = delete;
  HeldStreams& operator=(const HeldStreams&) = delete;

  // Waits until each has got an answer or an end, and returns how many have got an answer.
  size_t WaitForAnswers();

 private:
  class Stream;
  struct Connection;

  // Takes the events of all of them until each has got an answer or an end.
  void Drive();

  const std::unique_ptr<Connection> connection_;
  std::vector<std::unique_ptr<Stream>> streams_;  // Their steps are the thread's.
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  size_t waiting_count_ ABSL_GUARDED_BY(mutex_);  // Have neither an answer nor an end.
  size_t answered_count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::jthread thread_;
};

}  // namespace kvpool::test
