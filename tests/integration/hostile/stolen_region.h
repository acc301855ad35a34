#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "client/owned_fd.h"

namespace kvpool::test {

// A region's fd in the hands of a process that means harm, and a mapping of it that its forked
// children keep.
class StolenRegion {
 public:
  // Asks for it at the fd socket beside `address`. Errors are the daemon's.
  static absl::StatusOr<client::OwnedFd> Fetch(const std::string& address,
                                               const std::string& session_id, uint64_t region_id);

  static absl::StatusOr<StolenRegion> Map(client::OwnedFd fd, uint64_t size_bytes);

  // Does to the region what `attack` names: "ok", or the name of the errno that it fails with;
  // "unknown" for no attack.
  std::string Try(absl::string_view attack);

 private:
  StolenRegion(client::OwnedFd fd, char* data, uint64_t size_bytes)
      : fd_(std::move(fd)), data_(data), size_bytes_(size_bytes) {}

  bool Do(absl::string_view attack);

  client::OwnedFd fd_;
  char* data_;  // Mapped for the process's life.
  uint64_t size_bytes_;
};

}  // namespace kvpool::test
