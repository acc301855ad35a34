#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace kvpool::test {

// A connection that calls methods by name, with bytes for messages. Not thread-safe.
class GenericCaller {
 public:
  explicit GenericCaller(const std::string& address);
  ~GenericCaller();

  // Sends `messages`, however many the method takes, reads what comes, and says how it ended.
  absl::Status Call(const std::string& method, const std::vector<std::string>& messages,
                    std::chrono::milliseconds deadline);

 private:
  struct Connection;
  const std::unique_ptr<const Connection> connection_;
};

}  // namespace kvpool::test
