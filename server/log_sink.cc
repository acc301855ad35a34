#include "server/log_sink.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include <spdlog/fmt/fmt.h>

namespace kvpool::server {
namespace {

// How long the first line waits for a reader that is behind; those after it do not.
constexpr int kPatienceMs = 100;

}  // namespace

bool LogSink::WaitUntilWritable() {
  pollfd target{.fd = fd_, .events = POLLOUT, .revents = 0};
  const int ready = poll(&target, 1, dropped_ == 0 ? kPatienceMs : 0);
  return ready > 0 && (target.revents & POLLOUT) != 0;
}

void LogSink::WriteLine(const char* data, size_t size) {
  // A pipe that is writable takes PIPE_BUF bytes without blocking, and as one piece.
  std::string line(data, std::min<size_t>(size, PIPE_BUF));
  if (line.size() < size) line.back() = '\n';
  size_t written = 0;
  while (written < line.size()) {
    const ssize_t count = write(fd_, line.data() + written, line.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // Nobody is there to be told.
    written += static_cast<size_t>(count);
  }
}

void LogSink::sink_it_(const spdlog::details::log_msg& message) {
  if (!WaitUntilWritable()) {
    ++dropped_;
    return;
  }
  if (dropped_ > 0) {
    const std::string note = fmt::format("event=log_lines_dropped count={}\n", dropped_);
    WriteLine(note.data(), note.size());
    dropped_ = 0;
    if (!WaitUntilWritable()) {
      ++dropped_;
      return;
    }
  }
  spdlog::memory_buf_t line;
  formatter_->format(message, line);
  WriteLine(line.data(), line.size());
}

}  // namespace kvpool::server
