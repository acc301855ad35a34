#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace kvpool::questions {

// What a process that had a deadline said and how it ended.
struct Outcome {
  std::vector<std::string> lines;  // Of its stdout, until its end or the deadline.
  bool is_late = false;            // It was killed, with all of its own children.
  int exit_code = 0;               // 128 + the signal where one ended it. Nothing where is_late.
};

// Runs this program again with `arguments`, for `limit` at most. Does not wait for a process that
// not even SIGKILL ends, as one that hangs in a driver.
Outcome RunWithDeadline(const std::vector<std::string>& arguments, std::chrono::milliseconds limit);

}  // namespace kvpool::questions
