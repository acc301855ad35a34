// A worker among many: kvpool_test_churner SOCKET DIRECTORY NUMBER WORKER_COUNT SEED. It lives for
// a while and ends, as Churner::End says; where it ends orderly it writes what it did to stdout.
#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/integration/churn/churner.h"

int main(int argc, char** argv) {
  using kvpool::test::Churner;
  if (argc != 6) return static_cast<int>(Churner::End::kError);
  Churner churner({.socket = argv[1],
                   .directory = argv[2],
                   .number = static_cast<uint32_t>(std::stoul(argv[3])),
                   .worker_count = static_cast<uint32_t>(std::stoul(argv[4])),
                   .seed = std::stoull(argv[5])});
  const Churner::End end = churner.Live();
  if (end != Churner::End::kClosed) std::_Exit(static_cast<int>(end));
  std::cout << churner.counts().stamped << " " << churner.counts().taken << std::endl;
  return 0;
}
