#pragma once

#include <memory>

#include "absl/status/statusor.h"

#include "client/kept_session.h"
#include "client/options.h"
#include "client/session.h"

namespace kvpool::client {

struct ClientCore;

// A worker's connection to the kvpool daemon of its node.
//
//   auto client = kvpool::client::Client::Create({});
//   auto session = client->OpenSession({.pool = "llama", .client_name = "decode-0"});
//   auto mapping = (*session)->Map();
//   auto blocks = (*session)->Alloc(4);
//   std::span<std::byte> k = mapping->mutable_k(/*layer=*/0, (*blocks)[0].id());
//
// Connects when first used, and again after a break. Errors of every call carry what the daemon
// said: GetErrorDetail() of core/error.h reads it. Thread-safe. In a forked child every call of
// the client, and of what came from it, is FAILED_PRECONDITION, and destroying it does nothing.
// Sessions may outlive it.
class Client {
 public:
  // Does not connect. Errors: INVALID_ARGUMENT, a socket that is not "unix:" and a path of at most
  // 104 bytes, or a time that is not above zero and at most a day; FAILED_PRECONDITION, in a
  // forked child whose parent had made a client: gRPC works there only after exec; or somebody
  // else has made the directory of the default socket.
  static absl::StatusOr<Client> Create(ClientOptions options);

  Client(Client&&) noexcept = default;
  Client& operator=(Client&&) noexcept = default;
  ~Client() = default;

  // Opens a session, or joins one, and attaches it: it lives until it is closed, this process or
  // the daemon ends. Retried while the daemon starts or is gone; for a second, if it was never met.
  //
  // Errors: NOT_FOUND, no such pool or session to join; FAILED_PRECONDITION, LAYOUT_MISMATCH or
  // DEVICE; RESOURCE_EXHAUSTED, LIMIT or GUARANTEE; PERMISSION_DENIED; UNAVAILABLE, no daemon or
  // DRAINING; INTERNAL, an answer that makes no sense.
  absl::StatusOr<std::unique_ptr<Session>> OpenSession(SessionOptions options);

  // Opens and maps a session, and another one whenever it is lost. Errors: as OpenSession and, of
  // the mapping, Session::Map; INVALID_ARGUMENT, a session that joins.
  absl::StatusOr<std::unique_ptr<KeptSession>> KeepSession(KeptSessionOptions options);

 private:
  explicit Client(std::shared_ptr<ClientCore> core) : core_(std::move(core)) {}

  std::shared_ptr<ClientCore> core_;
};

}  // namespace kvpool::client
