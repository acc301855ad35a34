// Shows what kvpool is for, with real processes: one worker computes KV, another uses it in place
// after the first is gone, and a third is killed in the middle of writing.
//
//   kvpool_demo run --socket=unix:/run/kvpool/worker/kvpool.sock --pool=llama --text="..."
//
// It runs itself as its workers: prefill, decode, victim.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/statusor.h"

#include "client/cli/error_text.h"
#include "client/cli/exit_code.h"
#include "core/default_sockets.h"
#include "core/status_macros.h"
#include "deploy/demo/driver.h"
#include "deploy/demo/workers.h"

ABSL_FLAG(std::string, socket, "",
          "unix:PATH of a worker's listener; default: this user's daemon's");
ABSL_FLAG(std::string, pool, "llama", "a pool of 32 layers, 8 KV heads of 128, bf16");
ABSL_FLAG(std::string, text, "", "the prompt: a token a byte, whole blocks are used");
ABSL_FLAG(bool, flip_byte, false, "spoil one byte of the KV: the demo must then fail");

namespace {

constexpr char kUsage[] = "usage: kvpool_demo run|prefill|decode|victim --text=TEXT [OPTIONS]";

int RefuseUsage(const std::string& why) {
  std::fprintf(stderr, "kvpool_demo: %s\n", why.c_str());
  return static_cast<int>(kvpool::cli::ExitCode::kUsage);
}

absl::StatusOr<std::string> Socket() {
  std::string socket = absl::GetFlag(FLAGS_socket);
  if (!socket.empty()) return socket;
  KVPOOL_ASSIGN_OR_RETURN(
      const kvpool::DefaultSockets sockets,
      kvpool::FindTrustedDefaultSockets(geteuid(), std::getenv("XDG_RUNTIME_DIR")));
  return "unix:" + sockets.worker_path;
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("kvpool_demo run|prefill|decode|victim [flags]");
  const std::vector<char*> words = absl::ParseCommandLine(argc, argv);
  const std::map<std::string, absl::Status (*)(const kvpool::demo::WorkerOptions&)> roles = {
      {"run", kvpool::demo::RunDemo},
      {"prefill", kvpool::demo::RunPrefill},
      {"decode", kvpool::demo::RunDecode},
      {"victim", kvpool::demo::RunVictim},
  };
  const auto role = words.size() == 2 ? roles.find(words[1]) : roles.end();
  if (role == roles.end()) return RefuseUsage(kUsage);
  const std::string text = absl::GetFlag(FLAGS_text);
  if (text.empty()) return RefuseUsage("--text is needed: the prompt, a token a byte");
  const absl::StatusOr<std::string> socket = Socket();
  if (!socket.ok()) return RefuseUsage(std::string(socket.status().message()));
  const absl::Status status = role->second({.socket = *socket,
                                            .pool = absl::GetFlag(FLAGS_pool),
                                            .text = text,
                                            .flip_byte = absl::GetFlag(FLAGS_flip_byte)});
  if (status.ok()) return 0;
  std::fprintf(stderr, "kvpool_demo %s: %s\n", words[1], kvpool::cli::ErrorText(status).c_str());
  return static_cast<int>(kvpool::cli::ExitCodeFor(status));
}
