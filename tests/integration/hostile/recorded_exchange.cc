#include "tests/integration/hostile/recorded_exchange.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <thread>

#include <grpcpp/create_channel_posix.h>

#include "core/status_macros.h"
#include "tests/integration/hostile/raw_socket.h"
#include "tests/support/raw_client.h"

namespace kvpool::test {
namespace {

// Takes what there is off `from`, and gives it to `to`; empty at the end.
std::string Pass(int from, int to) {
  std::string bytes(16'384, '\0');
  const ssize_t size = recv(from, bytes.data(), bytes.size(), 0);
  bytes.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return Send(to, bytes) ? bytes : std::string();
}

// Passes on what comes from either side until one ends; returns what came from the client.
std::string Relay(int client, int daemon) {
  std::string sent;
  while (true) {
    std::array<pollfd, 2> fds{{{.fd = client, .events = POLLIN, .revents = 0},
                               {.fd = daemon, .events = POLLIN, .revents = 0}}};
    if (poll(fds.data(), fds.size(), -1) < 0) return sent;
    if (fds[0].revents != 0) {
      const std::string bytes = Pass(client, daemon);
      if (bytes.empty()) return sent;
      sent += bytes;
    }
    if (fds[1].revents != 0 && Pass(daemon, client).empty()) return sent;
  }
}

absl::Status MakeCalls(RawClient& client) {
  v1::OpenSessionRequest open;
  open.set_pool("p");
  open.set_pid(getpid());
  KVPOOL_ASSIGN_OR_RETURN(const v1::OpenSessionResponse opened, client.OpenSession(open));
  v1::AllocRequest alloc;
  alloc.set_session_id(opened.session_id());
  alloc.set_count(2);
  KVPOOL_ASSIGN_OR_RETURN(const v1::AllocResponse allocated, client.Alloc(alloc));
  v1::DecRefRequest dec_ref;
  dec_ref.set_session_id(opened.session_id());
  *dec_ref.mutable_blocks() = allocated.blocks();
  KVPOOL_RETURN_IF_ERROR(client.DecRef(dec_ref).status());
  KVPOOL_RETURN_IF_ERROR(client.GetBlock("p", 0).status());
  client.KeepAlive(opened.session_id())->Next();
  return client.CloseSession(opened.session_id());
}

}  // namespace

absl::StatusOr<std::string> RecordExchange(const std::string& address) {
  KVPOOL_ASSIGN_OR_RETURN(const client::OwnedFd daemon, ConnectTo(address, SOCK_STREAM));
  std::array<int, 2> fds{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    return absl::InternalError(strerrorname_np(errno));
  }
  const client::OwnedFd relayed(fds[1]);
  fcntl(fds[0], F_SETFL, O_NONBLOCK);
  std::string sent;
  std::jthread relay([&] { sent = Relay(relayed.get(), daemon.get()); });
  absl::Status status;
  {
    RawClient client(grpc::CreateInsecureChannelFromFd("recorded", fds[0]));
    status = MakeCalls(client);
  }
  shutdown(relayed.get(), SHUT_RDWR);
  relay.join();
  // The stream's end ended the session, where it came before the call did.
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  return sent;
}

}  // namespace kvpool::test
