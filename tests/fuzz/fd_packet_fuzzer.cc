// Packets to the socket that hands out memory. The first byte says how many descriptors come along;
// none of them may stay open, whatever the packet is.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kvpool/v1/layout.pb.h"
#include "server/fd_packet.h"
#include "server/limits.h"
#include "server/unique_fd.h"
#include "tests/fuzz/finding.h"
#include "tests/integration/hostile/raw_socket.h"

namespace kvpool::test {
namespace {

using server::PacketState;
using server::UniqueFd;

template <typename Make>
std::array<UniqueFd, 2> Pair(const Make& make) {
  std::array<int, 2> fds{-1, -1};
  Expect(make(fds.data()) == 0, "no descriptors left");
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Whether nobody has the other end of the pipe.
bool IsAtEnd(int pipe) {
  char byte = 0;
  return read(pipe, &byte, 1) == 0;
}

void Send(int socket, const std::string& bytes, const std::vector<int>& fds) {
  if (!fds.empty()) {
    Expect(SendFds(socket, bytes, fds), "a packet with descriptors is not taken");
  } else {
    Expect(test::Send(socket, bytes), "a packet is not taken");
  }
}

void SendAndReceive(const std::string& bytes, size_t fd_count) {
  const auto sockets =
      Pair([](int* fds) { return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds); });
  auto pipe = Pair([](int* fds) { return pipe2(fds, O_CLOEXEC | O_NONBLOCK); });
  Send(sockets[0].get(), bytes, std::vector<int>(fd_count, pipe[1].get()));
  v1::RegionFdRequest request;
  const PacketState state = server::ReceiveRequest(sockets[1].get(), request);
  v1::RegionFdRequest expected;
  const bool is_request = fd_count == 0 && !bytes.empty() &&
                          bytes.size() <= server::kMaxFdRequestBytes &&
                          expected.ParseFromString(bytes);
  Expect(state == (is_request ? PacketState::kRequest : PacketState::kEnd),
         "a packet is taken for what it is not");
  pipe[1].Reset();
  Expect(IsAtEnd(pipe[0].get()), "a descriptor that came along stays open");
}

}  // namespace
}  // namespace kvpool::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // The kernel passes 253 at most.
  const size_t fd_count = data[0] < 128 ? 0 : data[0] % 254;
  kvpool::test::SendAndReceive(std::string(reinterpret_cast<const char*>(data) + 1, size - 1),
                               fd_count);
  return 0;
}
