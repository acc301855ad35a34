// A FakeDaemon in a process of its own, to be killed or stopped: kvpool_fake_daemon_main DIR.
// Says "ready" when it listens, and ends with its stdin.
#include <cstdio>
#include <iostream>
#include <string>

#include "tests/support/fake_daemon.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const kvpool::test::FakeDaemon daemon(argv[1]);
  std::puts("ready");
  std::fflush(stdout);
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  return 0;
}
