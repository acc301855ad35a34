#include "tests/support/fake_fd_socket.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

#include "core/check.h"
#include "kvpool/v1/block.pb.h"

namespace kvpool::test {
namespace {

// Whether `fd` became readable before `stop` did.
bool WaitReadable(int fd, int stop) {
  std::array<pollfd, 2> fds = {{{fd, POLLIN, 0}, {stop, POLLIN, 0}}};
  KVPOOL_CHECK(poll(fds.data(), fds.size(), -1) > 0);
  return fds[1].revents == 0;
}

void SendPacket(int connection, const std::string& packet, int fd, size_t fd_count) {
  iovec vector{.iov_base = const_cast<char*>(packet.data()), .iov_len = packet.size()};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  if (fd_count > 0) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    const std::array<int, 2> fds = {fd, fd};
    std::memcpy(CMSG_DATA(header), fds.data(), fd_count * sizeof(int));
  }
  // The peer may be gone: that is its own affair.
  (void)sendmsg(connection, &message, MSG_NOSIGNAL);
}

}  // namespace

FakeFdSocket::FakeFdSocket(const std::string& path, int fd, uint64_t size_bytes,
                           std::function<void(const v1::RegionFdRequest&)> on_request)
    : fd_(fd), size_bytes_(size_bytes), on_request_(std::move(on_request)) {
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  stop_ = eventfd(0, EFD_CLOEXEC);
  KVPOOL_CHECK(listener_ >= 0 && stop_ >= 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  KVPOOL_CHECK(path.size() < sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  KVPOOL_CHECK(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  KVPOOL_CHECK(listen(listener_, 16) == 0);
  thread_ = std::jthread([this] { Serve(); });
}

FakeFdSocket::~FakeFdSocket() {
  const uint64_t one = 1;
  KVPOOL_CHECK(write(stop_, &one, sizeof(one)) == sizeof(one));
  thread_.join();
  close(listener_);
  close(stop_);
}

void FakeFdSocket::Serve() {
  while (WaitReadable(listener_, stop_)) {
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    ServeConnection(connection);
    close(connection);
  }
}

void FakeFdSocket::ServeConnection(int connection) {
  while (WaitReadable(connection, stop_)) {
    std::array<char, 512> bytes;
    const ssize_t size = recv(connection, bytes.data(), bytes.size(), 0);
    v1::RegionFdRequest request;
    if (size <= 0 || !request.ParseFromArray(bytes.data(), static_cast<int>(size))) return;
    on_request_(request);
    v1::RegionFdResponse response;
    response.set_size_bytes(size_bytes_);
    const Answer answer = answer_;
    if (answer == Answer::kNothing) return;
    if (answer == Answer::kRefusal) {
      response.set_code(5);
      response.set_message("no such region");
    }
    if (answer == Answer::kUnknownSession) {
      response.set_code(5);
      response.set_message("no such session");
      v1::ErrorDetail detail;
      detail.set_reason(v1::ErrorDetail::REASON_SESSION_UNKNOWN);
      response.add_details()->PackFrom(detail);
    }
    const size_t fd_count = answer == Answer::kTwoFds ? 2 : answer == Answer::kRight ? 1 : 0;
    const std::string packet =
        answer == Answer::kGarbage ? std::string(16, '\xff') : response.SerializeAsString();
    SendPacket(connection, packet, fd_, fd_count);
  }
}

}  // namespace kvpool::test
