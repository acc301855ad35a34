#pragma once

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>

namespace kvpool::server {

// LogSink writes log lines to a file descriptor and never waits long for it: a pipe that nobody
// reads must stop neither the logging thread nor, through it, the daemon's end.
//
// Belongs to the logging thread.
class LogSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  // Does not own `fd`.
  explicit LogSink(int fd) : fd_(fd) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}

 private:
  // Whether `fd_` takes a line now, or does soon.
  bool WaitUntilWritable();
  void WriteLine(const char* data, size_t size);

  const int fd_;
  size_t dropped_ = 0;  // Since the last line that was taken.
};

}  // namespace kvpool::server
