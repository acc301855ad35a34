#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace kvpool::test {

// Sends `count` packets that are no good to the fd socket beside `address`, each on a connection
// of its own: random bytes, too long, empty, with descriptors, for a session that is none. OK where
// each was refused or its connection ended; INTERNAL, naming the packet, where one was granted or
// not answered within 30 s.
absl::Status SendBadPackets(const std::string& address, uint64_t seed, uint32_t count);

// Asks for what is not there and never reads an answer, until the daemon ends the connection.
// INTERNAL where it takes a hundred thousand requests.
absl::Status AskWithoutReading(const std::string& address);

}  // namespace kvpool::test
