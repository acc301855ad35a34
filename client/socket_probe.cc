#include "client/socket_probe.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "client/owned_fd.h"

namespace kvpool::client {
namespace {

// What a client of HTTP/2 says first: the preface and an empty SETTINGS frame, whose ninth byte is
// the literal's own NUL.
constexpr char kGreeting[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
// A frame begins with its length, 3 bytes, and its type.
constexpr size_t kTypeOffset = 3;
constexpr char kSettingsType = 4;

absl::Status NoDaemon(const std::string& socket, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("no daemon answers at ", socket, ": ", why));
}

// What an error number of stat() or connect() says of the socket.
absl::Status SocketError(const std::string& socket, int error) {
  switch (error) {
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(
          absl::StrCat("you may not connect to ", socket,
                       ": its mode and group, and its directory's, say who may"));
    case ENOENT:
    case ENOTDIR:
      return NoDaemon(socket, "there is no such file");
    case ECONNREFUSED:
      return NoDaemon(socket, "nobody listens there: its daemon is gone");
    case EPROTOTYPE:
      return NoDaemon(socket, "it is a socket of another kind (\".fd\" is not for calls)");
    case EAGAIN:
      return NoDaemon(socket, "more connections wait there than are let wait");
    default:
      return NoDaemon(socket, std::strerror(error));
  }
}

// Waits for the greeting that answers ours.
absl::Status AwaitGreeting(const OwnedFd& fd, const std::string& socket, Duration patience) {
  const TimePoint end = std::chrono::steady_clock::now() + patience;
  std::array<char, kTypeOffset + 1> header{};
  size_t size = 0;
  while (size < header.size()) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd events{.fd = fd.get(), .events = POLLIN, .revents = 0};
    const int ready = poll(&events, 1, std::max(0, static_cast<int>(left.count())));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      return NoDaemon(socket,
                      "connections are taken, but nobody speaks: it is another program's, "
                      "or its daemon hangs");
    }
    const ssize_t got = recv(fd.get(), header.data() + size, header.size() - size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return NoDaemon(socket, "who listens there ends connections at once");
    size += static_cast<size_t>(got);
  }
  if (header[kTypeOffset] == kSettingsType) return absl::OkStatus();
  return NoDaemon(socket, "who listens there does not speak HTTP/2: it is another program");
}

}  // namespace

absl::Status ProbeSocket(const std::string& socket, Duration patience) {
  const std::string path(absl::StripPrefix(socket, "unix:"));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return SocketError(socket, ENAMETOOLONG);
  path.copy(address.sun_path, path.size());
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return SocketError(socket, errno);
  if (S_ISDIR(status.st_mode)) return NoDaemon(socket, "it is a directory, no socket");
  if (!S_ISSOCK(status.st_mode)) return NoDaemon(socket, "it is a file, no socket");

  const OwnedFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return SocketError(socket, errno);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return SocketError(socket, errno);
  }
  // Where it fails, reading tells.
  send(fd.get(), kGreeting, sizeof(kGreeting), MSG_NOSIGNAL);
  return AwaitGreeting(fd, socket, patience);
}

absl::Status WaitForDaemon(grpc::Channel& channel, const std::string& socket, Duration patience) {
  const auto end = std::chrono::system_clock::now() +
                   std::chrono::duration_cast<std::chrono::system_clock::duration>(
                       std::min(patience, kGreetingPatience));
  grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY && state != GRPC_CHANNEL_TRANSIENT_FAILURE &&
         channel.WaitForStateChange(state, end)) {
    state = channel.GetState(/*try_to_connect=*/true);
  }
  if (state == GRPC_CHANNEL_READY) return absl::OkStatus();
  // Who has not greeted gRPC all the while is not waited for again.
  const Duration left =
      std::max<Duration>(end - std::chrono::system_clock::now(), Duration::zero());
  if (absl::Status status = ProbeSocket(socket, left); !status.ok()) return status;
  // It has come meanwhile. gRPC tries again in a while, and reads what comes of it only while
  // somebody waits.
  channel.WaitForConnected(end);
  return absl::OkStatus();
}

}  // namespace kvpool::client
