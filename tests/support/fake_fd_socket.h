#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "kvpool/v1/layout.pb.h"

namespace kvpool::test {

// The fd socket of a daemon, answering with one region's fd, or wrongly on demand. One thread of
// its own serves one connection after another.
class FakeFdSocket {
 public:
  enum class Answer { kRight, kNoFd, kTwoFds, kGarbage, kNothing, kRefusal, kUnknownSession };

  // Listens at `path` and gives out `fd`, which it does not own. `on_request` is told of each
  // request, on the socket's thread.
  FakeFdSocket(const std::string& path, int fd, uint64_t size_bytes,
               std::function<void(const v1::RegionFdRequest&)> on_request);
  ~FakeFdSocket();

  void set_answer(Answer answer) { answer_ = answer; }

 private:
  void Serve();
  void ServeConnection(int connection);

  const int fd_;
  const uint64_t size_bytes_;
  const std::function<void(const v1::RegionFdRequest&)> on_request_;
  std::atomic<Answer> answer_ = Answer::kRight;
  int listener_ = -1;
  int stop_ = -1;  // An eventfd: readable when the thread is to end.
  std::jthread thread_;
};

}  // namespace kvpool::test
