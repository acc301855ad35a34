// A worker for tests: kvpool_test_worker SOCKET. It takes a command a line on stdin and answers
// each with a line on stdout; commands.h lists them. It ends when stdin does.
#include <iostream>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "client/client.h"
#include "tests/integration/worker/commands.h"

// The leak checker stops threads that a forked child does not have, and what a child leaves alone
// it would call leaked. Who is looked for is the daemon's leaks.
extern "C" int __lsan_is_turned_off() { return 1; }  // NOLINT

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  absl::StatusOr<kvpool::client::Client> client =
      kvpool::client::Client::Create({.socket = argv[1]});
  if (!client.ok()) {
    std::cerr << client.status() << "\n";
    return 1;
  }
  kvpool::test::Commands commands(*std::move(client));
  std::string line;
  while (std::getline(std::cin, line)) std::cout << commands.Run(line) << std::endl;
  return 0;
}
