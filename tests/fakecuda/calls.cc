#include "tests/fakecuda/calls.h"

#include <fcntl.h>
#include <unistd.h>

#include <sstream>

#include "tests/fakecuda/settings.h"

namespace fakecuda {

Result CallBook::Count(const std::string& call) {
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++counts_[call];
  }
  std::istringstream faults(TheSettings().Get("FAKECUDA_FAIL").value_or(""));
  for (std::string fault; std::getline(faults, fault, ',');) {
    std::istringstream fields(fault);
    std::string name;
    std::string nth;
    std::string result;
    std::getline(fields, name, ':');
    std::getline(fields, nth, ':');
    std::getline(fields, result, ':');
    if (name != call) continue;
    if (const uint64_t wanted = std::stoull(nth); wanted != 0 && wanted != number) continue;
    while (result == "hang") pause();
    return static_cast<Result>(std::stoi(result));
  }
  return Result::kSuccess;
}

void CallBook::Log(const std::string& call, Result result) {
  const auto path = TheSettings().Get("FAKECUDA_LOG");
  if (!path.has_value()) return;
  const int fd = open(path->c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const std::string line = call + " " + std::to_string(static_cast<int>(result)) + "\n";
  // One write, so that lines of several threads and processes do not mix.
  if (write(fd, line.data(), line.size()) < 0) TheSettings().Set("FAKECUDA_LOG", std::nullopt);
  close(fd);
}

uint64_t CallBook::CountOf(const std::string& call) const {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find(call);
  return found == counts_.end() ? 0 : found->second;
}

void CallBook::Reset() {
  const std::lock_guard lock(mutex_);
  counts_.clear();
}

CallBook& TheCallBook() {
  static auto& book = *new CallBook();
  return book;
}

}  // namespace fakecuda
