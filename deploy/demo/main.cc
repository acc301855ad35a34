// Shows what kvpool is for, with real processes: one worker computes KV, another uses it in place
// after the first is gone, and a third is killed in the middle of writing.
//
//   kvpool_demo run --socket=unix:/run/kvpool/worker/kvpool.sock --pool=llama --text="..."
//
// It runs itself as its workers: prefill, decode, victim.

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"

#include "deploy/demo/driver.h"
#include "deploy/demo/workers.h"

ABSL_FLAG(std::string, socket, "unix:/run/kvpool/worker/kvpool.sock", "a worker's listener");
ABSL_FLAG(std::string, pool, "llama", "a pool of 32 layers, 8 KV heads of 128, bf16");
ABSL_FLAG(std::string, text, "", "the prompt: a token a byte, whole blocks are used");
ABSL_FLAG(bool, flip_byte, false, "spoil one byte of the KV: the demo must then fail");

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
  if (role == roles.end()) {
    std::fprintf(stderr, "usage: kvpool_demo run|prefill|decode|victim [flags]\n");
    return 2;
  }
  const absl::Status status = role->second({.socket = absl::GetFlag(FLAGS_socket),
                                            .pool = absl::GetFlag(FLAGS_pool),
                                            .text = absl::GetFlag(FLAGS_text),
                                            .flip_byte = absl::GetFlag(FLAGS_flip_byte)});
  if (status.ok()) return 0;
  std::fprintf(stderr, "kvpool_demo %s: %s\n", words[1], std::string(status.message()).c_str());
  return 1;
}
