// A worker for tests: kvpool_test_worker SOCKET [PID]. It says that it is of that pid. It takes a
// command a line on stdin and answers each with a line on stdout; commands.h lists them. It ends
// when stdin does.
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "client/client.h"
#include "tests/integration/support/forwarding_transport.h"
#include "tests/integration/worker/commands.h"

// The leak checker stops threads that a forked child does not have, and what a child leaves alone
// it would call leaked. Who is looked for is the daemon's leaks.
extern "C" int __lsan_is_turned_off() { return 1; }  // NOLINT

namespace {

// Opens sessions as a process in a namespace of its own would, where pids are other numbers.
class PidTransport final : public kvpool::test::ForwardingTransport {
 public:
  PidTransport(const std::string& socket, int pid) : ForwardingTransport(socket), pid_(pid) {}

  absl::Status OpenSession(const kvpool::v1::OpenSessionRequest& request,
                           const kvpool::client::CallContext& call,
                           kvpool::v1::OpenSessionResponse& response) override {
    kvpool::v1::OpenSessionRequest changed = request;
    changed.set_pid(pid_);
    return ForwardingTransport::OpenSession(changed, call, response);
  }

 private:
  const int pid_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  kvpool::client::ClientOptions options{.socket = argv[1]};
  if (argc == 3) options.transport = std::make_shared<PidTransport>(argv[1], std::stoi(argv[2]));
  absl::StatusOr<kvpool::client::Client> client =
      kvpool::client::Client::Create(std::move(options));
  if (!client.ok()) {
    std::cerr << client.status() << "\n";
    return 1;
  }
  kvpool::test::Commands commands(*std::move(client));
  std::string line;
  while (std::getline(std::cin, line)) std::cout << commands.Run(line) << std::endl;
  return 0;
}
