#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "client/owned_fd.h"

namespace kvpool::test {

// A beginning of an HTTP/2 connection that goes on in a way that no honest client's does: frames
// without their other half, or far more of a kind than anybody needs.
struct HalfOpenWay {
  std::string name;
  std::string bytes;
};

// Every way there is.
const std::vector<HalfOpenWay>& HalfOpenWays();

// Makes `count` connections of each way to the gRPC socket at `address`, sends the beginning, and
// returns them open, unread. The daemon may have ended some. UNAVAILABLE where it does not take a
// connection at all.
absl::StatusOr<std::vector<client::OwnedFd>> OpenHalf(const std::string& address, uint32_t count);

}  // namespace kvpool::test
