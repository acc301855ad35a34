#pragma once

#include <condition_variable>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "client/client.h"
#include "core/mutex.h"

namespace kvpool::test {

// What a worker is told to do, a command a line, and its answer, a line each. An answer begins
// with "ok", or is "error CODE REASON: message".
//
//   open POOL NAME        opens a session; join ID joins one; close ends it
//   id                    "ok <session id>"
//   alive                 "ok", or the reason why the session is not
//   alloc COUNT           "ok ID:GENERATION ..."; alloc-many COUNT the same, in silence
//   take ID:GENERATION..  takes references on blocks handed over
//   refs                  "ok ID:GENERATION ..." of all that it holds
//   drop                  gives everything back
//   keep                  keeps what it holds from the next open
//   drop-kept             ends the leases that it kept
//   map                   maps shard 0
//   write BYTE            writes it all over the blocks it holds, through the mapping
//   write-half BYTE       the same, but only over the first half of each side
//   read ID               "ok BYTE" where a block's bytes are all the same, else "ok mixed"
//   cut                   cuts its connections to the daemon, and keeps what it mapped
//   fork                  "ok PID" of a child that keeps all that is open and does nothing
//   fork-call             "ok" and what a child that allocates and exits is told
//   stop                  stops itself by SIGSTOP; answers when it goes on
//   notice KIND           waits for a notice of that number, "ok"
//   notices KIND          "ok COUNT" of the notices of that number so far
//
// Not thread-safe.
class Commands {
 public:
  explicit Commands(client::Client client) : client_(std::move(client)) {}

  std::string Run(const std::string& line);

 private:
  using Words = std::vector<std::string>;

  absl::StatusOr<std::string> Do(const Words& words);
  absl::StatusOr<std::string> Open(const Words& words);
  absl::StatusOr<std::string> Close();
  absl::StatusOr<std::string> Alloc(const Words& words);
  absl::StatusOr<std::string> Take(const Words& words);
  absl::StatusOr<std::string> Drop();
  absl::StatusOr<std::string> Map();
  absl::StatusOr<std::string> Write(const Words& words);
  absl::StatusOr<std::string> Read(const Words& words) const;
  absl::StatusOr<std::string> Cut();
  absl::StatusOr<std::string> Fork();
  absl::StatusOr<std::string> ForkCall();
  absl::StatusOr<std::string> WaitForNotice(const Words& words);
  absl::StatusOr<std::string> CountNotices(const Words& words);
  absl::StatusOr<std::string> Keep();
  absl::StatusOr<std::string> DropKept();
  std::string Refs() const;

  // Before the session, whose thread uses them.
  Mutex mutex_;
  std::condition_variable_any noticed_;
  std::vector<client::Notice> notices_ ABSL_GUARDED_BY(mutex_);

  client::Client client_;
  std::unique_ptr<client::Session> session_;
  std::vector<client::BlockLease> leases_;
  std::vector<client::BlockLease> kept_;  // Of the session, or of one before.
  std::optional<client::Mapping> mapping_;
};

}  // namespace kvpool::test
