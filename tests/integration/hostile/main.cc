// A worker that means harm: kvpool_test_hostile SOCKET. It takes a command a line on stdin and
// answers each with a line on stdout; commands.h lists them. It ends when stdin does.
//
// kvpool_test_hostile SOCKET --open POOL TTL_SECONDS opens a session, says its id, and ends.
#include <sys/resource.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include <google/protobuf/stubs/logging.h>

#include "tests/integration/hostile/commands.h"

// The leak checker needs to trace its process, which a child that kept everything hinders. Who is
// looked for is the daemon's leaks.
extern "C" int __lsan_is_turned_off() { return 1; }  // NOLINT

int main(int argc, char** argv) {
  if (argc != 2 && argc != 5) return 2;
  // It sends text that is no text on purpose.
  google::protobuf::SetLogHandler(nullptr);
  rlimit fds{};
  getrlimit(RLIMIT_NOFILE, &fds);
  fds.rlim_cur = fds.rlim_max;
  setrlimit(RLIMIT_NOFILE, &fds);

  kvpool::test::Commands commands(argv[1]);
  if (argc == 5) {
    std::cout << commands.Run(std::string("open-unattached ") + argv[3] + " " + argv[4])
              << std::endl;
    // Without any destructor: as a process that was ended.
    std::_Exit(0);
  }
  std::string line;
  while (std::getline(std::cin, line)) std::cout << commands.Run(line) << std::endl;
  std::_Exit(0);
}
