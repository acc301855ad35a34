#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "tests/support/random.h"

namespace kvpool::test {

std::string RandomBytes(Random& random, uint32_t size);

// Makes `count` connections to the gRPC socket at `address`, sends each bytes that are no good,
// and closes them, read out or not:
//
//   garbage    random bytes
//   frames     a right preface, then random frames: any type, flags, stream and length, some with
//              the headers of a call of ours and messages whose length lies
//   truncated  the bytes of a right call, cut anywhere
//   recorded   what gRPC's own client sends for a session's life, changed in a few places
//
// UNAVAILABLE where the daemon does not take a connection; INVALID_ARGUMENT for another way.
absl::Status SendBadBytes(const std::string& address, absl::string_view way, uint64_t seed,
                          uint32_t count);

}  // namespace kvpool::test
