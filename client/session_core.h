#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "client/attachment.h"
#include "client/cancellation.h"
#include "client/client_core.h"
#include "client/event_releaser.h"
#include "client/fork_guard.h"
#include "client/options.h"
#include "client/releaser.h"
#include "client/transport.h"
#include "core/device/gpu_importer.h"
#include "core/ids.h"
#include "core/layout/pool_layout.h"
#include "core/mutex.h"
#include "core/status_macros.h"

namespace kvpool::client {

// What OpenSession's answer says.
struct OpenedSession {
  SessionId id;
  std::string daemon_epoch;
  std::shared_ptr<const PoolLayout> layout;
  Limits limits;
  std::vector<v1::MemoryRegion> regions;
};

// A session's life and its calls, shared by Session and the leases that came from it; held by
// MakeForkSafe pointers. Thread-safe.
class SessionCore {
 public:
  SessionCore(std::shared_ptr<ClientCore> client, OpenedSession opened, SessionOptions options);

  SessionCore(const SessionCore&) = delete;
  SessionCore& operator=(const SessionCore&) = delete;
  ~SessionCore() = default;

  // Attaches the session and waits until it is, or `cancellation` ends that. Called once, before
  // anything else.
  absl::Status Attach(Cancellation& cancellation);

  // As Session::Close.
  absl::Status Close();

  // Makes a call that may be repeated, until it has an answer.
  template <typename Request, typename Response>
  absl::Status Call(absl::Status (Transport::*method)(const Request&, const CallContext&,
                                                      Response&),
                    const Request& request, Response& response, Duration wait = {}) {
    return Run(
        wait, [this] { return status().ok(); }, method, request, response);
  }

  // Makes a call that must not be repeated: once. Without an answer it may have had its effect.
  template <typename Request, typename Response>
  absl::Status CallOnce(absl::Status (Transport::*method)(const Request&, const CallContext&,
                                                          Response&),
                        const Request& request, Response& response) {
    return Run(
        Duration{}, [] { return false; }, method, request, response);
  }

  // Makes a call that moves bytes: one attempt may take all of ClientOptions::transfer_timeout,
  // and it is repeated only while `may_repeat` says so.
  absl::Status Transfer(absl::FunctionRef<bool()> may_repeat,
                        absl::FunctionRef<absl::Status(const CallContext&)> attempt);

  // Asks for a region's memory, in as many attempts as any call.
  absl::Status GetRegionFd(const v1::RegionFdRequest& request, OwnedFd& fd);

  // Gives references back, under one key. `done`: nobody is expected to go on with them.
  absl::Status DecRef(std::span<const BlockRef> refs, bool done = false);

  // As long as the daemon lets a call wait that would wait for `wait`; 0 for less.
  Duration ClampWait(Duration wait) const;

  // OK, or why a call cannot be made: a forked child, or the session's end.
  absl::Status CheckUsable() const;
  // OK while the session lives.
  absl::Status status() const;

  // Never 0, and never the same again.
  uint64_t NextKey();

  Releaser& releaser() { return releaser_; }
  EventReleaser& event_releaser() { return event_releaser_; }
  // Where GPU memory is opened.
  GpuImporter& gpus();
  Transport& transport() { return *client_->transport; }
  const OpenedSession& opened() const { return opened_; }
  const ForkGuard& fork_guard() const { return fork_guard_; }

 private:
  template <typename Request, typename Response>
  absl::Status Run(Duration wait, absl::FunctionRef<bool()> may_repeat,
                   absl::Status (Transport::*method)(const Request&, const CallContext&, Response&),
                   const Request& request, Response& response) {
    KVPOOL_RETURN_IF_ERROR(CheckUsable());
    return Learn(client_->retrier.Run(wait, cancellation_, may_repeat, [&](Duration timeout) {
      response.Clear();
      return (client_->transport.get()->*method)(request, {timeout, cancellation_}, response);
    }));
  }

  // Takes note of what an answer says about the session, and returns what the caller is told.
  absl::Status Learn(absl::Status status);
  // Ends the session here, since the daemon has ended it.
  void MarkEnded(const absl::Status& why);
  void Notify(const Notice& notice);
  void OnStreamEnd(const absl::Status& how);
  void OnReleaseFailure(std::span<const BlockRef> refs, const absl::Status& status);

  const ForkGuard fork_guard_;
  const std::shared_ptr<ClientCore> client_;
  const OpenedSession opened_;
  const SessionOptions options_;
  std::atomic<uint64_t> next_key_;
  Cancellation cancellation_;  // Of every call but CloseSession.

  mutable Mutex mutex_;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);  // OK while the session lives.

  Releaser releaser_;
  EventReleaser event_releaser_;  // Its leases hold this until Close.
  Attachment attachment_;
};

}  // namespace kvpool::client
