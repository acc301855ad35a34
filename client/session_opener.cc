#include "client/session_opener.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "client/convert.h"
#include "client/fork_guard.h"
#include "client/session_core.h"
#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool::client {
namespace {

// How long a daemon that is not there is waited for by who has not met it: one that starts just now
// comes, and a socket that is mistyped is told soon.
constexpr Duration kAbsencePatience = std::chrono::seconds(1);

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

SessionOpener::SessionOpener(std::shared_ptr<ClientCore> client, SessionOptions options)
    : client_(std::move(client)), options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<Session>> SessionOpener::Open(Cancellation& cancellation) {
  const TimePoint start = client_->retrier.now();
  return Run(
      [&] {
        return !is_absent_ || client_->has_met_daemon ||
               client_->retrier.now() - start < kAbsencePatience;
      },
      cancellation);
}

absl::StatusOr<std::unique_ptr<Session>> SessionOpener::TryOnce(Cancellation& cancellation) {
  return Run([] { return false; }, cancellation);
}

absl::StatusOr<std::unique_ptr<Session>> SessionOpener::Run(absl::FunctionRef<bool()> may_go_on,
                                                            Cancellation& cancellation) {
  KVPOOL_RETURN_IF_ERROR(client_->fork_guard.Check());
  KVPOOL_RETURN_IF_ERROR(CheckTexts(options_));
  const v1::OpenSessionRequest request = MakeRequest(options_);
  v1::OpenSessionResponse response;
  // It has no key, and may yet be repeated: a session whose answer was lost ends by its ttl.
  KVPOOL_RETURN_IF_ERROR(client_->retrier.Run(
      Duration{}, cancellation, [&] { return !cancellation.is_cancelled() && may_go_on(); },
      [&](Duration timeout) { return Attempt(request, timeout, cancellation, response); }));
  KVPOOL_ASSIGN_OR_RETURN(OpenedSession opened, ReadResponse(response));
  auto session = std::unique_ptr<Session>(
      new Session(MakeForkSafe<SessionCore>(client_, std::move(opened), options_)));
  // Where it fails, the session's destructor closes it.
  KVPOOL_RETURN_IF_ERROR(session->core_->Attach(cancellation));
  return session;
}

absl::Status SessionOpener::Attempt(const v1::OpenSessionRequest& request, Duration timeout,
                                    Cancellation& cancellation, v1::OpenSessionResponse& response) {
  response.Clear();
  absl::Status status = client_->transport->OpenSession(request, {timeout, cancellation}, response);
  is_absent_ = IsAbsence(status);
  if (!is_absent_ && !absl::IsDeadlineExceeded(status)) client_->has_met_daemon = true;
  return status;
}

}  // namespace kvpool::client
