#include "tests/integration/support/log_lines.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace kvpool::test {

size_t CountLines(const std::string& log, std::initializer_list<std::string> texts) {
  const std::vector<std::string> lines = absl::StrSplit(log, '\n');
  return static_cast<size_t>(std::ranges::count_if(lines, [&](const std::string& line) {
    return std::ranges::all_of(
        texts, [&](const std::string& text) { return absl::StrContains(line, text); });
  }));
}

size_t CountWarnings(const std::string& log) {
  return CountLines(log, {" level=warning "}) + CountLines(log, {" level=error "}) +
         CountLines(log, {" level=critical "});
}

}  // namespace kvpool::test
