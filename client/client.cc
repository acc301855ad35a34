#include "client/client.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "client/client_core.h"
#include "client/fork_guard.h"
#include "client/grpc_transport.h"
#include "client/session_opener.h"
#include "core/default_sockets.h"
#include "core/status_macros.h"

namespace kvpool::client {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";
// With ".fd" added, a path fits sockaddr_un's 108 bytes.
constexpr size_t kMaxPathBytes = 104;
constexpr Duration kMaxTime = std::chrono::hours(24);

absl::Status CheckOptions(const ClientOptions& options) {
  if (!absl::StartsWith(options.socket, kUnixPrefix) ||
      options.socket.size() == kUnixPrefix.size() ||
      options.socket.size() > kUnixPrefix.size() + kMaxPathBytes) {
    return absl::InvalidArgumentError(absl::StrCat("socket '", options.socket,
                                                   "' is not unix: and a path of at most ",
                                                   kMaxPathBytes, " bytes"));
  }
  const std::array<std::pair<const char*, Duration>, 8> times = {{
      {"retry.attempt_timeout", options.retry.attempt_timeout},
      {"retry.total_timeout", options.retry.total_timeout},
      {"retry.initial_backoff", options.retry.initial_backoff},
      {"retry.max_backoff", options.retry.max_backoff},
      {"close_timeout", options.close_timeout},
      {"transfer_timeout", options.transfer_timeout},
      {"ping_interval", options.ping_interval},
      {"ping_timeout", options.ping_timeout},
  }};
  for (const auto& [name, time] : times) {
    if (time > Duration::zero() && time <= kMaxTime) continue;
    return absl::InvalidArgumentError(absl::StrCat(name, " is ",
                                                   std::chrono::duration<double>(time).count(),
                                                   " s: not above 0 and at most a day"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> DefaultSocket() {
  KVPOOL_ASSIGN_OR_RETURN(const DefaultSockets sockets,
                          FindTrustedDefaultSockets(geteuid(), std::getenv("XDG_RUNTIME_DIR")));
  return absl::StrCat(kUnixPrefix, sockets.worker_path);
}

// FAILED_PRECONDITION where an earlier client's process forked this one.
absl::Status CheckGrpcWorks() {
  static const ForkGuard first_use;
  if (!first_use.is_in_child()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this process was forked from one that used kvpool: it needs to exec first");
}

}  // namespace

absl::StatusOr<Client> Client::Create(ClientOptions options) {
  if (options.socket.empty()) {
    KVPOOL_ASSIGN_OR_RETURN(options.socket, DefaultSocket());
  }
  KVPOOL_RETURN_IF_ERROR(CheckOptions(options));
  std::shared_ptr<Transport> transport = options.transport;
  if (transport == nullptr) {
    KVPOOL_RETURN_IF_ERROR(CheckGrpcWorks());
    transport = MakeGrpcTransport(options.socket, options.ping_interval, options.ping_timeout);
  }
  return Client(MakeForkSafe<ClientCore>(std::move(options), std::move(transport)));
}

absl::StatusOr<std::unique_ptr<Session>> Client::OpenSession(SessionOptions options) {
  Cancellation cancellation(core_->runtime);
  return SessionOpener(core_, std::move(options)).Open(cancellation);
}

absl::StatusOr<std::unique_ptr<KeptSession>> Client::KeepSession(KeptSessionOptions options) {
  return KeptSession::Open(core_, std::move(options));
}

}  // namespace kvpool::client
