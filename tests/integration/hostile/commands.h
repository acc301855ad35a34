#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "client/owned_fd.h"
#include "tests/integration/hostile/stolen_region.h"
#include "tests/support/raw_client.h"
#include "tests/support/raw_session.h"

namespace kvpool::test {

// What a hostile worker is told to do, a command a line, and its answer, a line each. An answer
// begins with "ok", or is "error CODE REASON: message".
//
//   open POOL                      opens and attaches a session: "ok ID"
//   open-unattached POOL TTL_S     opens one, and leaves it unattached: "ok ID"
//   open-by-helper POOL TTL_S      the same, by another process, which has ended by then
//   attach                         attaches it: "ok"
//   alloc COUNT                    "ok"
//   fd SESSION REGION              asks for that region's fd in that session's name: "ok CODE"
//   map                            takes and maps the memory of its session's first region
//   try ATTACK                     "ok" and what StolenRegion::Try says
//   fork                           "ok PID" of a child that keeps all that is open and mapped
//   die                            ends itself in the middle of everything; no answer
//   stop                           stops itself by SIGSTOP; answers when it goes on
//   connect WAY COUNT              holds so many connections open: silent, half, settings or fd
//   half-open COUNT                holds so many connections of each way in half_open.h open
//   await-end                      waits until the daemon has ended each of them
//   pass-fds                       passes its own descriptors on the gRPC socket
//   packets SEED COUNT             packets.h
//   unread                         asks on the fd socket until the daemon ends the connection
//   bytes WAY SEED COUNT           wire_bytes.h: garbage, frames, truncated or recorded
//   calls SEED COUNT               random_calls.h
//   bad COUNT, streams COUNT, oversize, sessions COUNT, close-sessions,
//   waits COUNT REFUSED_COUNT      floods.h
//
// Not thread-safe.
class Commands {
 public:
  explicit Commands(std::string address);
  ~Commands();

  std::string Run(const std::string& line);

 private:
  using Words = std::vector<std::string>;
  using Answer = absl::StatusOr<std::string>;
  struct Entry;
  static const std::vector<Entry>& Table();

  Answer Open(const Words& words);
  Answer OpenUnattached(const Words& words);
  Answer OpenByHelper(const Words& words);
  Answer Attach(const Words& words);
  Answer Alloc(const Words& words);
  Answer AskFd(const Words& words);
  Answer Map(const Words& words);
  Answer Try(const Words& words);
  Answer Fork(const Words& words);
  Answer Stop(const Words& words);
  Answer Connect(const Words& words);
  Answer HalfOpen(const Words& words);
  Answer AwaitEnd(const Words& words);
  Answer Packets(const Words& words);
  Answer Bytes(const Words& words);
  Answer Calls(const Words& words);
  Answer Bad(const Words& words);
  Answer Streams(const Words& words);
  Answer Sessions(const Words& words);
  Answer CloseSessions(const Words& words);
  Answer Waits(const Words& words);

  absl::StatusOr<std::string> SessionId() const;

  const std::string address_;
  RawClient client_;
  std::unique_ptr<RawSession> session_;
  std::optional<StolenRegion> region_;
  std::vector<client::OwnedFd> held_;     // Connections that are only held.
  std::vector<std::string> session_ids_;  // Of `sessions`.
};

}  // namespace kvpool::test
