#include "server/fd_packet.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>

#include "core/check.h"
#include "server/limits.h"
#include "server/unique_fd.h"

namespace kvpool::server {
namespace {

// The kernel passes at most so many at once (SCM_MAX_FD).
constexpr size_t kMaxPassedFds = 253;

// Closes the descriptors that came along; whether there were any, or other ancillary data.
bool DropControl(msghdr& message) {
  bool found = (message.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    found = true;
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      const UniqueFd closed(fd);
    }
  }
  return found;
}

}  // namespace

PacketState ReceiveRequest(int socket, v1::RegionFdRequest& request) {
  std::array<char, kMaxFdRequestBytes> bytes{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxPassedFds * sizeof(int))> control{};
  iovec vector{.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t size = -1;
  do {
    size = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) {
    return errno == EAGAIN || errno == EWOULDBLOCK ? PacketState::kNothing : PacketState::kEnd;
  }
  const bool has_control = DropControl(message);
  // An empty packet looks like the end, and would be a request for nothing.
  if (size == 0 || has_control || (message.msg_flags & MSG_TRUNC) != 0) return PacketState::kEnd;
  const bool is_request = request.ParseFromArray(bytes.data(), static_cast<int>(size));
  return is_request ? PacketState::kRequest : PacketState::kEnd;
}

bool SendResponse(int socket, const v1::RegionFdResponse& response, std::optional<int> fd) {
  std::string bytes;
  KVPOOL_CHECK(response.SerializeToString(&bytes));
  iovec vector{.iov_base = bytes.data(), .iov_len = bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (fd.has_value()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &*fd, sizeof(int));
  }
  ssize_t size = -1;
  do {
    size = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (size < 0 && errno == EINTR);
  return size == static_cast<ssize_t>(bytes.size());
}

}  // namespace kvpool::server
