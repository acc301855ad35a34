#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace kvpool::cli {

// Every option of every command. Which command takes which, command_list.cc says. (Braces, so
// that designated initialisers may leave fields out.)
struct Options {
  std::optional<std::string> socket{};
  std::optional<absl::Duration> timeout{};
  bool json = false;
  bool help = false;
  bool version = false;
  bool release_claims = false;
  bool simulate = false;
  bool csv = false;
  bool with_tokens = false;

  std::optional<std::string> spec{};
  std::optional<uint64_t> bytes{};
  uint32_t first = 0;
  uint32_t count = 0;
  std::optional<uint32_t> layer{};
  std::optional<uint32_t> boundary{};
  uint32_t shard = 0;
  std::string tag{};

  std::optional<std::string> pool{};
  std::optional<uint32_t> workers{};
  std::optional<double> speed{};
  std::optional<std::string> capacity{};
  std::optional<std::string> policy{};
  uint32_t block_tokens = 512;
  uint32_t done = 0;

  std::optional<uint64_t> after{};
  std::optional<std::string> epoch{};
  std::optional<std::string> tokens{};
  std::string model{};
  std::string adapter{};
  std::string salt{};
};

// An option as `--help` shows it.
struct OptionInfo {
  absl::string_view name;
  absl::string_view value;  // Stands for the value; empty for one that is on or off.
  absl::string_view help;
  absl::Status (*set)(absl::string_view text, Options& options) = nullptr;
};

// Nothing for a name that is no option's.
const OptionInfo* FindOption(absl::string_view name);

// A command line, read.
struct CommandLine {
  std::vector<std::string> words;  // What is no option: the command and its arguments.
  Options options;
  std::vector<std::string> option_names;  // Those given, in order.
};

// Reads `--name=value`, `--name value`, `--name` and `--noname` (on or off), also `-h`, in any
// place; what follows `--` is words. A usage error, naming it, for an option that does not exist
// (with the one that it may be meant to be), lacks its value or has one that cannot be.
absl::StatusOr<CommandLine> ParseCommandLine(std::span<const std::string> arguments);

// Where the daemon is, by the environment alone.
struct Environment {
  std::optional<std::string> socket{};       // KVPOOL_SOCKET.
  std::optional<std::string> runtime_dir{};  // XDG_RUNTIME_DIR.
  uid_t uid = 0;
};

// The socket to use: the option, else KVPOOL_SOCKET, else the operator socket where the daemon
// puts it by default. A usage error unless it is "unix:" and a path that a socket can have, or
// where somebody else has made the directory of the default one.
absl::StatusOr<std::string> ChooseSocket(const Options& options, const Environment& environment);

}  // namespace kvpool::cli
