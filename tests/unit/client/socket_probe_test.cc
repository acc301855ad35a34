#include "client/socket_probe.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "client/client.h"
#include "client/owned_fd.h"
#include "core/check.h"
#include "tests/support/catch.h"
#include "tests/support/fake_daemon.h"
#include "tests/support/temp_dir.h"

namespace kvpool::client {
namespace {

// For what comes at once, and for what never comes.
constexpr Duration kLong = std::chrono::seconds(30);
constexpr Duration kShort = std::chrono::milliseconds(20);

// A unix socket bound to a path, which takes connections where it listens.
OwnedFd Bind(const std::string& path, int type, bool listens) {
  OwnedFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  KVPOOL_CHECK(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  if (listens) KVPOOL_CHECK(listen(fd.get(), 16) == 0);
  return fd;
}

// Another program's socket: with one connection it does as it is told.
class OtherProgram {
 public:
  OtherProgram(const std::string& path, std::function<void(int connection)> serve)
      : listener_(Bind(path, SOCK_STREAM, /*listens=*/true)),
        thread_([this, serve = std::move(serve)] {
          const OwnedFd connection(accept(listener_.get(), nullptr, nullptr));
          serve(connection.get());
        }) {}

 private:
  const OwnedFd listener_;
  std::jthread thread_;
};

void Say(int connection, const std::string& bytes) {
  KVPOOL_CHECK(send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(bytes.size()));
}

// Until the other side has closed: what it sent unread would reset the connection.
void Drain(int connection) {
  char bytes[64];
  while (recv(connection, bytes, sizeof(bytes), 0) > 0) continue;
}

void CheckUnavailable(const absl::Status& status, const std::string& socket,
                      const std::string& why) {
  INFO(status.ToString());
  CHECK(absl::IsUnavailable(status));
  CHECK(absl::StrContains(status.message(), "no daemon answers at " + socket + ": " + why));
}

// Sockets where connecting fails, each with what is said of it.
class WrongSockets {
 public:
  WrongSockets() {
    std::ofstream(directory_.File("file")) << "text";
    Bind(directory_.File("dead"), SOCK_STREAM, /*listens=*/true);
    fd_socket_ = Bind(directory_.File("s.fd"), SOCK_SEQPACKET, /*listens=*/true);
  }

  std::vector<std::pair<std::string, std::string>> all() const {
    return {{directory_.File("absent"), "there is no such file"},
            {directory_.File("file/below"), "there is no such file"},
            {directory_.File("file"), "it is a file, no socket"},
            {directory_.path().string(), "it is a directory, no socket"},
            {directory_.File("dead"), "nobody listens there"},
            {directory_.File("s.fd"), "it is a socket of another kind"}};
  }

 private:
  const test::TempDir directory_;
  OwnedFd fd_socket_;
};

TEST_CASE("A daemon that greets is there") {
  const test::TempDir directory;
  const test::FakeDaemon daemon(directory.path().string());
  CHECK(ProbeSocket(daemon.socket(), kLong).ok());
  const auto channel = grpc::CreateChannel(daemon.socket(), grpc::InsecureChannelCredentials());
  CHECK(WaitForDaemon(*channel, daemon.socket(), kLong).ok());
  CHECK(channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY);
}

TEST_CASE("A socket that cannot be connected to is told what it is, at once") {
  const WrongSockets wrong;
  for (const auto& [path, why] : wrong.all()) {
    CAPTURE(path);
    const std::string socket = "unix:" + path;
    CheckUnavailable(ProbeSocket(socket, kLong), socket, why);
    const auto channel = grpc::CreateChannel(socket, grpc::InsecureChannelCredentials());
    CheckUnavailable(WaitForDaemon(*channel, socket, kLong), socket, why);
  }
}

TEST_CASE("A socket that the user may not connect to is PERMISSION_DENIED") {
  if (geteuid() == 0) return;  // Root may.
  const test::TempDir directory;
  const std::string path = directory.File("s");
  const OwnedFd listener = Bind(path, SOCK_STREAM, /*listens=*/true);
  REQUIRE(chmod(path.c_str(), 0) == 0);
  const absl::Status status = ProbeSocket("unix:" + path, kLong);
  CHECK(absl::IsPermissionDenied(status));
  CHECK(absl::StrContains(status.message(), "you may not connect to unix:" + path));
}

TEST_CASE("Who takes connections and says nothing is given up after the patience") {
  const test::TempDir directory;
  const std::string socket = "unix:" + directory.File("s");
  const OwnedFd listener = Bind(directory.File("s"), SOCK_STREAM, /*listens=*/true);
  const std::string why = "connections are taken, but nobody speaks";
  CheckUnavailable(ProbeSocket(socket, kShort), socket, why);
  const auto channel = grpc::CreateChannel(socket, grpc::InsecureChannelCredentials());
  CheckUnavailable(WaitForDaemon(*channel, socket, kShort), socket, why);
}

TEST_CASE("Who speaks something else than HTTP/2 is another program") {
  const test::TempDir directory;
  const std::string socket = "unix:" + directory.File("s");
  const OtherProgram program(directory.File("s"), [](int connection) {
    Say(connection, "HTTP/1.1 400 Bad Request\r\n\r\n");
    Drain(connection);
  });
  CheckUnavailable(ProbeSocket(socket, kLong), socket, "who listens there does not speak HTTP/2");
}

TEST_CASE("Who ends connections at once is told so") {
  const test::TempDir directory;
  const std::string socket = "unix:" + directory.File("s");
  const OtherProgram program(directory.File("s"), [](int /*connection*/) {});
  CheckUnavailable(ProbeSocket(socket, kLong), socket, "who listens there ends connections");
}

TEST_CASE("A greeting may come in pieces") {
  const test::TempDir directory;
  const OtherProgram program(directory.File("s"), [](int connection) {
    // As far as the type of the frame: who probes reads no further.
    for (const char byte : std::string("\0\0\0\4", 4)) Say(connection, {byte});
    Drain(connection);
  });
  CHECK(ProbeSocket("unix:" + directory.File("s"), kLong).ok());
}

TEST_CASE("A client says what is wrong with its socket") {
  const WrongSockets wrong;
  for (const auto& [path, why] : wrong.all()) {
    CAPTURE(path);
    TimePoint now{};
    auto client = Client::Create({.socket = "unix:" + path,
                                  .clock = [&now] { return now; },
                                  .sleep = [&now](Duration pause) { now += pause; }});
    REQUIRE(client.ok());
    CheckUnavailable(client->OpenSession({.pool = "p"}).status(), "unix:" + path, why);
    // A second, and the pause that goes over it.
    CHECK(now.time_since_epoch() <= std::chrono::seconds(2));
  }
}

}  // namespace
}  // namespace kvpool::client
