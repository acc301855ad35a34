#pragma once

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "client/owned_fd.h"

namespace kvpool::test {

// A connection to a unix socket ("unix:" and a path). Waits while the daemon's queue is full; a
// read or a write takes 30 s at most.
inline absl::StatusOr<client::OwnedFd> ConnectTo(const std::string& address, int type) {
  const std::string path = address.substr(std::strlen("unix:"));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof(name.sun_path) - 1);
  client::OwnedFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return absl::InternalError(strerrorname_np(errno));
  const timeval limit{.tv_sec = 30, .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) {
    return absl::UnavailableError(strerrorname_np(errno));
  }
  return fd;
}

// Whether the other end took it all; it may have ended the connection instead.
inline bool Send(int fd, const std::string& bytes) {
  return send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

// Reads until the other end closes; DEADLINE_EXCEEDED where nothing comes for long.
inline absl::Status ReadToEnd(int fd) {
  std::array<char, 4096> bytes{};
  ssize_t size = 0;
  do {
    size = recv(fd, bytes.data(), bytes.size(), 0);
  } while (size > 0);
  if (size == 0 || errno == ECONNRESET) return absl::OkStatus();
  return absl::DeadlineExceededError(strerrorname_np(errno));
}

// As one packet, with copies of `fds`.
inline bool SendFds(int fd, const std::string& bytes, std::span<const int> fds) {
  iovec vector{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  std::vector<char> control(CMSG_SPACE(fds.size_bytes()));
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  return sendmsg(fd, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

}  // namespace kvpool::test
