// Measures the real daemon over real sockets, beside the limit of each figure, in one run.
//
//   kvpool_system_bench [unary] [pipeline] [open] [reclaim] [resident] [interference]
//
// All of them without an argument. Build it in the release preset. It also runs itself as the
// worker processes of its scenarios (hold, busy).

#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "tests/bench/system/scenarios.h"

int main(int argc, char** argv) {
  using namespace kvpool::bench;  // NOLINT(google-build-using-namespace)
  if (argc == 5 && std::strcmp(argv[1], "hold") == 0) return HoldWorker(argv[2], argv[3], argv[4]);
  if (argc == 5 && std::strcmp(argv[1], "busy") == 0) return BusyWorker(argv[2], argv[3], argv[4]);

  const std::map<std::string, std::function<void()>> scenarios = {
      {"unary", RunUnary},     {"pipeline", RunPipeline}, {"open", RunOpen},
      {"reclaim", RunReclaim}, {"resident", RunResident}, {"interference", RunInterference},
  };
  for (int i = 1; i < argc; ++i) {
    if (!scenarios.contains(argv[i])) {
      std::fprintf(stderr, "no scenario '%s'\n", argv[i]);
      return 2;
    }
  }
  std::printf("| line | what | figure | limit | ratio |\n|--:|---|--:|--:|--:|\n");
  if (argc == 1) {
    for (const auto& [name, run] : scenarios) run();
  }
  for (int i = 1; i < argc; ++i) scenarios.at(argv[i])();
  return 0;
}
