#include "tests/integration/hostile/packets.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/status_macros.h"
#include "kvpool/v1/layout.pb.h"
#include "tests/integration/hostile/raw_socket.h"
#include "tests/integration/hostile/wire_bytes.h"
#include "tests/support/random.h"

namespace kvpool::test {
namespace {

constexpr uint32_t kMaxRequestBytes = 512;

std::string Request(const std::string& session_id) {
  v1::RegionFdRequest request;
  request.set_session_id(session_id);
  request.set_region_id(1);
  return request.SerializeAsString();
}

void SendOne(int fd, uint32_t kind, Random& random) {
  switch (kind) {
    case 0:
      Send(fd, RandomBytes(random, 1 + random.Below(kMaxRequestBytes)));
      break;
    case 1:
      Send(fd, RandomBytes(random, kMaxRequestBytes + 1 + random.Below(60'000)));
      break;
    case 2:
      Send(fd, "");
      break;
    case 3:
      SendFds(fd, Request(std::string(32, '0')), std::array{STDIN_FILENO});
      break;
    case 4:
      // As many as the kernel passes at once.
      SendFds(fd, RandomBytes(random, 16), std::vector<int>(253, fd));
      break;
    case 5:
      Send(fd, Request("nobody\nlevel=critical event=forged"));
      break;
    default:
      Send(fd, Request(std::string(32, '0')));
      break;
  }
}

// Whether what comes back grants nothing: a refusal, or the end.
absl::Status ReadRefusal(int fd) {
  std::array<char, 4096> bytes{};
  const ssize_t size = recv(fd, bytes.data(), bytes.size(), 0);
  if (size == 0 || (size < 0 && (errno == ECONNRESET || errno == EPIPE))) return absl::OkStatus();
  if (size < 0) return absl::InternalError(absl::StrCat("no answer: ", strerrorname_np(errno)));
  v1::RegionFdResponse response;
  if (!response.ParseFromArray(bytes.data(), static_cast<int>(size))) {
    return absl::InternalError("an answer that is none");
  }
  return response.code() != 0 ? absl::OkStatus() : absl::InternalError("it was granted");
}

}  // namespace

absl::Status SendBadPackets(const std::string& address, uint64_t seed, uint32_t count) {
  Random random(seed);
  for (uint32_t i = 0; i < count; ++i) {
    KVPOOL_ASSIGN_OR_RETURN(const client::OwnedFd fd, ConnectTo(address + ".fd", SOCK_SEQPACKET));
    SendOne(fd.get(), i % 7, random);
    const absl::Status status = ReadRefusal(fd.get());
    if (!status.ok()) {
      return absl::InternalError(absl::StrCat("packet ", i, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status AskWithoutReading(const std::string& address) {
  KVPOOL_ASSIGN_OR_RETURN(const client::OwnedFd fd, ConnectTo(address + ".fd", SOCK_SEQPACKET));
  for (int i = 0; i < 100'000; ++i) {
    if (!Send(fd.get(), Request(std::string(32, '0')))) return absl::OkStatus();
  }
  return absl::InternalError("it goes on answering");
}

}  // namespace kvpool::test
