#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kvpool::test {

struct RandomCallsOptions {
  std::string address;
  uint64_t seed = 0;
  uint32_t count = 0;
  // Texts that the daemon knows, for the fields of well-formed requests. Empty: none is sent, only
  // bytes that may or may not be a message.
  std::vector<std::string> words{};
  // Methods that are left out, such as "Drain".
  std::vector<std::string> without{};
};

// Calls every method of the three services in turn with random messages, and returns how the calls
// ended, such as "INVALID_ARGUMENT=12 OK=3". INTERNAL, naming the method, where bytes that are no
// message of the method's were taken for one, an error of the daemon's came without its detail
// (core/error.h), or the daemon did not answer at all.
absl::StatusOr<std::string> CallAtRandom(const RandomCallsOptions& options);

}  // namespace kvpool::test
