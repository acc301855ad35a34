#pragma once

#include <cstdio>
#include <string>

namespace kvpool::bench {

// Prints one row of the table of results: the line of the targets' list, what was measured, the
// figure, its limit, and their ratio.
inline void Report(const std::string& line, const std::string& what, const std::string& figure,
                   const std::string& limit, double ratio) {
  std::printf("| %s | %s | %s | %s | %.2f |\n", line.c_str(), what.c_str(), figure.c_str(),
              limit.c_str(), ratio);
  std::fflush(stdout);
}

inline std::string Microseconds(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f us", value);
  return text;
}

}  // namespace kvpool::bench
