#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/kept_session.h"
#include "core/error.h"
#include "core/mutex.h"
#include "tests/support/eventually.h"
#include "tests/unit/client/fixture.h"

namespace kvpool::client {

// What a kept session told of its losses. Thread-safe.
class Changes {
 public:
  std::function<void(const SessionChange&)> Callback() {
    return [this](const SessionChange& change) {
      const MutexLock lock(mutex_);
      lost_.push_back(change.lost);
      now_.push_back(change.now.status());
      changed_.notify_all();
    };
  }

  // Waits for the `index`th: why the session was lost, or how the next one fares.
  absl::Status Lost(size_t index = 0) { return Wait(lost_, index); }
  absl::Status Now(size_t index = 0) { return Wait(now_, index); }
  size_t count() {
    const MutexLock lock(mutex_);
    return lost_.size();
  }

 private:
  absl::Status Wait(const std::vector<absl::Status>& all, size_t index) {
    const MutexLock lock(mutex_);
    while (all.size() <= index) changed_.wait(mutex_);
    return all[index];
  }

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<absl::Status> lost_;  // These two under the mutex.
  std::vector<absl::Status> now_;
};

// A kept session of a fake daemon's, which may be restarted.
struct KeptFixture {
  // How long a test waits for what must come.
  static constexpr Duration kPatience = std::chrono::seconds(30);

  explicit KeptFixture(KeptSessionOptions options = {},
                       ClientOptions client_options = {.retry = QuickRetry()}) {
    Start();
    client_options.socket = daemon->socket();
    client.emplace(Client::Create(std::move(client_options)).value());
    options.session.pool = "p";
    if (!options.on_change) options.on_change = changes.Callback();
    kept = client->KeepSession(std::move(options)).value();
  }

  void Start() { daemon.emplace(directory.path().string()); }
  // Ends the daemon, and waits until that is known.
  void Kill() {
    daemon.reset();
    std::filesystem::remove(directory.File("kvpool.sock.fd"));
    KVPOOL_CHECK(test::Eventually([this] { return !kept->Current().ok(); }));
  }
  // Ends the session as a daemon does that had no answer to its pings.
  void Lose() { daemon->EndStreams(absl::UnavailableError("no answer to pings")); }

  std::shared_ptr<MappedSession> Wait() {
    auto current = kept->Current(kPatience);
    KVPOOL_CHECK(current.ok());
    return *std::move(current);
  }

  test::TempDir directory;
  std::optional<test::FakeDaemon> daemon;
  Changes changes;
  std::optional<Client> client;
  std::unique_ptr<KeptSession> kept;
};

inline bool IsSessionUnknown(const absl::Status& status) {
  return absl::IsNotFound(status) && GetErrorDetail(status).reason == Reason::kSessionUnknown;
}

}  // namespace kvpool::client
