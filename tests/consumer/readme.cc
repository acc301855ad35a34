// Runs README's worker in C++, which is built as it stands there, on a daemon: readme SOCKET.
#include <cstdio>
#include <string>

#include <absl/status/status.h>

absl::Status Work(const std::string& socket);

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const absl::Status status = Work(argv[1]);
  std::printf("%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
