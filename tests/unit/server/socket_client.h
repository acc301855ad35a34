#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "server/unique_fd.h"

namespace kvpool::server {

// A connection to the unix socket at `path`; invalid where nobody listens there.
inline UniqueFd ConnectTo(const std::string& path, int type) {
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return UniqueFd();
  }
  return fd;
}

// Whether the other end has closed. Waits for that.
inline bool ReadsEnd(int fd) {
  char byte = 0;
  ssize_t size = 0;
  do {
    size = read(fd, &byte, 1);
  } while (size > 0);
  return size == 0 || errno == ECONNRESET;
}

inline size_t CountOpenFds() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

}  // namespace kvpool::server
