#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include <google/protobuf/message.h>

#include "core/error.h"

namespace kvpool::test {

// A server on a unix socket that answers each method of inspection, administration and health
// with what it was told, and remembers what it was asked: kvpoolctl's other side. What it was not
// told of is UNIMPLEMENTED. Methods are named without their service: "GetPool".
//
// Thread-safe.
class CannedDaemon {
 public:
  // Serves at `path` until destroyed.
  explicit CannedDaemon(const std::string& path);
  ~CannedDaemon();

  CannedDaemon(const CannedDaemon&) = delete;
  CannedDaemon& operator=(const CannedDaemon&) = delete;

  // The method answers `response` from now on. A stream sends all that were given for it.
  void Answer(const std::string& method, const google::protobuf::Message& response);
  // The method fails from now on, as the daemon fails: with an ErrorDetail, if `reason` is one.
  void Fail(const std::string& method, absl::StatusCode code, Reason reason,
            const std::string& message);
  // The method does not answer until this is destroyed.
  void Hang(const std::string& method);

  // The latest request of the method, as one line of text; empty for none.
  std::string LastRequest(const std::string& method) const;

 private:
  class State;
  class Inspect;
  class Admin;
  class Health;
  struct Server;

  const std::shared_ptr<State> state_;
  const std::unique_ptr<Server> server_;
};

}  // namespace kvpool::test
