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
#include "client/convert.h"
#include "client/fork_guard.h"
#include "client/grpc_transport.h"
#include "client/session_core.h"
#include "core/default_sockets.h"
#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool::client {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";
// With ".fd" added, a path fits sockaddr_un's 108 bytes.
constexpr size_t kMaxPathBytes = 104;
constexpr Duration kMaxTime = std::chrono::hours(24);
// How long a daemon that is not there is waited for by who has not met it: one that starts just now
// comes, and a socket that is mistyped is told soon.
constexpr Duration kAbsencePatience = std::chrono::seconds(1);

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

// Whether nobody answered, rather than a daemon that cannot for a while.
bool IsAbsence(const absl::Status& status) {
  return absl::IsUnavailable(status) && GetErrorDetail(status).reason == Reason::kUnspecified;
}

// Protobuf's strings are UTF-8; others do not arrive.
absl::Status CheckTexts(const SessionOptions& options) {
  const std::array<std::pair<const char*, const std::string*>, 4> texts = {{
      {"pool", &options.pool},
      {"client_name", &options.client_name},
      {"expected_fingerprint", &options.expected_fingerprint},
      {"model_id", &options.model_id},
  }};
  for (const auto& [name, text] : texts) {
    KVPOOL_RETURN_IF_ERROR(CheckUtf8(name, *text));
  }
  for (const std::string& uuid : options.device_uuids) {
    KVPOOL_RETURN_IF_ERROR(CheckUtf8("device_uuids", uuid));
  }
  return absl::OkStatus();
}

v1::OpenSessionRequest MakeRequest(const SessionOptions& options) {
  v1::OpenSessionRequest request;
  request.set_pool(options.pool);
  request.set_client_name(options.client_name);
  request.set_pid(getpid());
  request.set_expected_fingerprint(options.expected_fingerprint);
  if (options.ttl != Duration::zero()) *request.mutable_ttl() = DurationToProto(options.ttl);
  request.set_model_id(options.model_id);
  request.set_guaranteed_blocks(options.guaranteed_blocks);
  for (const std::string& uuid : options.device_uuids) request.add_device_uuids(uuid);
  if (options.join.has_value()) request.set_join_session_id(options.join->ToString());
  return request;
}

absl::StatusOr<OpenedSession> ReadResponse(const v1::OpenSessionResponse& response) {
  const absl::StatusOr<SessionId> id = SessionId::Parse(response.session_id());
  if (!id.ok()) return absl::InternalError("the daemon's answer has no session id");
  KVPOOL_ASSIGN_OR_RETURN(PoolLayout layout, ReadLayout(response.layout()));
  return OpenedSession{.id = *id,
                       .daemon_epoch = response.daemon_epoch(),
                       .layout = std::make_shared<const PoolLayout>(std::move(layout)),
                       .limits = LimitsFromProto(response.limits()),
                       .regions = {response.regions().begin(), response.regions().end()}};
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
  KVPOOL_RETURN_IF_ERROR(core_->fork_guard.Check());
  KVPOOL_RETURN_IF_ERROR(CheckTexts(options));
  const v1::OpenSessionRequest request = MakeRequest(options);
  v1::OpenSessionResponse response;
  Cancellation cancellation(core_->runtime);
  const TimePoint start = core_->retrier.now();
  bool is_absent = false;
  // It has no key, and may yet be repeated: a session whose answer was lost ends by its ttl.
  KVPOOL_RETURN_IF_ERROR(core_->retrier.Run(
      Duration{}, cancellation,
      [&] {
        return !is_absent || core_->has_met_daemon ||
               core_->retrier.now() - start < kAbsencePatience;
      },
      [&](Duration timeout) {
        response.Clear();
        absl::Status status =
            core_->transport->OpenSession(request, {timeout, cancellation}, response);
        is_absent = IsAbsence(status);
        if (!is_absent && !absl::IsDeadlineExceeded(status)) core_->has_met_daemon = true;
        return status;
      }));
  KVPOOL_ASSIGN_OR_RETURN(OpenedSession opened, ReadResponse(response));
  auto session = std::unique_ptr<Session>(
      new Session(MakeForkSafe<SessionCore>(core_, std::move(opened), std::move(options))));
  // Where it fails, the session's destructor closes it.
  KVPOOL_RETURN_IF_ERROR(session->core_->Attach());
  return session;
}

}  // namespace kvpool::client
