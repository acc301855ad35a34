#pragma once

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "client/cancellation.h"
#include "client/client_core.h"
#include "client/options.h"
#include "client/session.h"
#include "kvpool/v1/block.pb.h"

namespace kvpool::client {

// Opens sessions of one client with the same options, one after the other. Belongs to one thread.
class SessionOpener {
 public:
  SessionOpener(std::shared_ptr<ClientCore> client, SessionOptions options);

  // As Client::OpenSession; CANCELLED once `cancellation` is.
  absl::StatusOr<std::unique_ptr<Session>> Open(Cancellation& cancellation);
  // The same in one attempt.
  absl::StatusOr<std::unique_ptr<Session>> TryOnce(Cancellation& cancellation);

  // Sessions from now on open only where the pool's fingerprint is this.
  void Expect(const std::string& fingerprint) { options_.expected_fingerprint = fingerprint; }

 private:
  absl::StatusOr<std::unique_ptr<Session>> Run(absl::FunctionRef<bool()> may_go_on,
                                               Cancellation& cancellation);
  absl::Status Attempt(const v1::OpenSessionRequest& request, Duration timeout,
                       Cancellation& cancellation, v1::OpenSessionResponse& response);

  const std::shared_ptr<ClientCore> client_;
  SessionOptions options_;
  bool is_absent_ = false;  // Nobody answered the last attempt.
};

}  // namespace kvpool::client
