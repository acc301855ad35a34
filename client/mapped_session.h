#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/mapping.h"
#include "client/session.h"

namespace kvpool::client {

// A session and its mappings, shared by all who use them, and let go of by the last. Its memory is
// then unmapped and its session closed, as by Session::Close: hold it for as long as anything
// touches its blocks, and until device work on them is complete. The last must not let it go on a
// thread of the session's. Thread-safe, as its parts are.
class MappedSession {
 public:
  // `mappings` are of `session`, one a shard.
  MappedSession(std::unique_ptr<Session> session, std::vector<Mapping> mappings);

  MappedSession(const MappedSession&) = delete;
  MappedSession& operator=(const MappedSession&) = delete;
  ~MappedSession() = default;

  Session& session() { return *session_; }
  // Requires a shard that was mapped; a breach ends the process.
  Mapping& mapping(uint32_t shard = 0);

 private:
  const std::unique_ptr<Session> session_;
  std::vector<Mapping> mappings_;  // Last: what is closed is unmapped before.
};

}  // namespace kvpool::client
