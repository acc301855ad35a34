#include "client/region_fd.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "client/status_from_grpc.h"
#include "core/status_macros.h"

namespace kvpool::client {
namespace {

// An answer holds a message for people; the daemon's is far shorter.
constexpr size_t kMaxResponseBytes = 4096;
// More than the one that is right, so that a wrong answer's are received and closed.
constexpr size_t kMaxFds = 8;

absl::Status SocketError(absl::string_view call, const std::string& path) {
  const int error = errno;
  const auto code = error == EAGAIN || error == EWOULDBLOCK || error == EINPROGRESS
                        ? absl::StatusCode::kDeadlineExceeded
                    : error == EACCES || error == EPERM ? absl::StatusCode::kPermissionDenied
                                                        : absl::StatusCode::kUnavailable;
  return absl::Status(code, absl::StrCat(call, " ", path, ": ", std::strerror(error)));
}

absl::StatusOr<OwnedFd> Connect(const std::string& path, Duration timeout) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("socket path is too long: ", path));
  }
  path.copy(address.sun_path, path.size());

  OwnedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return SocketError("socket", path);
  const auto micros = std::max<int64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(timeout).count(), 1000);
  const timeval limit{.tv_sec = micros / 1'000'000, .tv_usec = micros % 1'000'000};
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return SocketError("connect", path);
  }
  return fd;
}

std::vector<OwnedFd> TakeFds(msghdr& message) {
  std::vector<OwnedFd> fds;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

absl::StatusOr<std::vector<OwnedFd>> Receive(const OwnedFd& fd, const std::string& path,
                                             v1::RegionFdResponse& response) {
  std::array<char, kMaxResponseBytes> bytes{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control{};
  iovec vector{.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = recvmsg(fd.get(), &message, MSG_CMSG_CLOEXEC);
  if (size < 0) return SocketError("receive from", path);
  std::vector<OwnedFd> fds = TakeFds(message);
  if (size == 0) return absl::UnavailableError(absl::StrCat(path, " closed the connection"));
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
      !response.ParseFromArray(bytes.data(), static_cast<int>(size))) {
    return absl::InternalError(absl::StrCat(path, " answered with no region response"));
  }
  return fds;
}

}  // namespace

absl::StatusOr<OwnedFd> FetchRegionFd(const std::string& path, const v1::RegionFdRequest& request,
                                      Duration timeout, v1::RegionFdResponse& response) {
  KVPOOL_ASSIGN_OR_RETURN(const OwnedFd connection, Connect(path, timeout));
  const std::string packet = request.SerializeAsString();
  if (send(connection.get(), packet.data(), packet.size(), MSG_NOSIGNAL) < 0) {
    return SocketError("send to", path);
  }
  KVPOOL_ASSIGN_OR_RETURN(std::vector<OwnedFd> fds, Receive(connection, path, response));
  if (response.code() != 0) {
    return StatusFromDetails(response.code(), response.message(), response.details());
  }
  if (fds.size() != 1) {
    return absl::InternalError(absl::StrCat(path, " answered with ", fds.size(), " fds"));
  }
  return std::move(fds.front());
}

}  // namespace kvpool::client
