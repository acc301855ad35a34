#include "client/cli/options.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "absl/flags/marshalling.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "client/cli/exit_code.h"
#include "client/cli/text.h"
#include "core/default_sockets.h"
#include "core/nearest_name.h"
#include "core/status_macros.h"

namespace kvpool::cli {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";
constexpr size_t kMaxSocketPath = 104;

absl::Status NoValue(absl::string_view text, absl::string_view why) {
  return UsageError(absl::StrCat("\"", Printable(text), "\" is no value for it",
                                 why.empty() ? "" : ": ", Printable(why)));
}

// Sets a field by the rules of abseil's flags.
template <auto kField>
absl::Status SetByFlagRules(absl::string_view text, Options& options) {
  std::string error;
  if (absl::ParseFlag(text, &(options.*kField), &error)) return absl::OkStatus();
  return NoValue(text, error);
}

// The same where not being given has a meaning of its own.
template <auto kField>
absl::Status SetOptional(absl::string_view text, Options& options) {
  typename std::remove_reference_t<decltype(options.*kField)>::value_type value{};
  std::string error;
  if (!absl::ParseFlag(text, &value, &error)) {
    return NoValue(text, error);
  }
  options.*kField = value;
  return absl::OkStatus();
}

absl::Status SetTimeout(absl::string_view text, Options& options) {
  absl::Duration timeout;
  if (!absl::ParseDuration(text, &timeout)) {
    return UsageError(absl::StrCat("\"", Printable(text),
                                   "\" is no number with a unit, such as 500ms, 5s, 2m or 1h"));
  }
  if (timeout <= absl::ZeroDuration() || timeout > absl::Hours(24)) {
    return UsageError(absl::StrCat("\"", Printable(text), "\" is not above 0 and at most 24h"));
  }
  options.timeout = timeout;
  return absl::OkStatus();
}

absl::Status SetBytes(absl::string_view text, Options& options) {
  KVPOOL_ASSIGN_OR_RETURN(options.bytes, ParseBytes(text));
  return absl::OkStatus();
}

constexpr std::array<OptionInfo, 30> kOptions = {{
    {"socket", "unix:PATH", "the daemon's socket", SetOptional<&Options::socket>},
    {"timeout", "DURATION", "how long to wait for an answer, such as 500ms or 2m", SetTimeout},
    {"json", "", "print JSON: the API's own, where there is one", SetByFlagRules<&Options::json>},
    {"help", "", "print this", SetByFlagRules<&Options::help>},
    {"version", "", "print the version of kvpoolctl", SetByFlagRules<&Options::version>},
    {"spec", "JSON|@FILE", "the pool's geometry: JSON of a PoolSpec, or a file of it",
     SetOptional<&Options::spec>},
    {"bytes", "BYTES",
     "how much memory a shard may take, such as 80GiB, instead of the spec's size", SetBytes},
    {"first", "ID", "the first block to show; default 0", SetByFlagRules<&Options::first>},
    {"count", "N", "how many blocks to show; default 0, to the end",
     SetByFlagRules<&Options::count>},
    {"layer", "N", "sum one layer, block by block", SetOptional<&Options::layer>},
    {"boundary", "N", "how many of the blocks listed are the prefix; default: all",
     SetOptional<&Options::boundary>},
    {"shard", "N", "the shard to read; default 0", SetByFlagRules<&Options::shard>},
    {"tag", "TEXT", "a name for the answer, also in the daemon's log",
     SetByFlagRules<&Options::tag>},
    {"release_claims", "", "vouch that none of the session's processes writes any more",
     SetByFlagRules<&Options::release_claims>},
    {"pool", "POOL", "the pool to replay against", SetOptional<&Options::pool>},
    {"workers", "N", "how many processes send the requests; default 1",
     SetOptional<&Options::workers>},
    {"speed", "X", "X times as fast as the trace was; default 0, as fast as it goes",
     SetOptional<&Options::speed>},
    {"simulate", "", "use no daemon: run its ledger here", SetByFlagRules<&Options::simulate>},
    {"capacity", "N[,N...]", "how many blocks to leave cached after each request",
     SetOptional<&Options::capacity>},
    {"policy", "P[,P...]", "learned, leaf_lru or, the default, both",
     SetOptional<&Options::policy>},
    {"block_tokens", "N", "512 or 16: tokens that one of hash_ids stands for; default 512",
     SetByFlagRules<&Options::block_tokens>},
    {"done", "PERCENT", "how many of the requests that nobody goes on with say so; default 0",
     SetByFlagRules<&Options::done>},
    {"csv", "", "print CSV", SetByFlagRules<&Options::csv>},
    {"after", "NUMBER", "go on after that event, without a snapshot if the daemon still can",
     SetOptional<&Options::after>},
    {"epoch", "EPOCH", "the daemon whose number --after is, as its events and `status` show it",
     SetOptional<&Options::epoch>},
    {"with_tokens", "", "show the blocks' tokens too, where the publisher gave them",
     SetByFlagRules<&Options::with_tokens>},
    {"tokens", "FILE|-", "a file of the prompt's tokens: numbers, or a JSON array; -: stdin",
     SetOptional<&Options::tokens>},
    {"model", "ID", "the model_id that the prefix was published under",
     SetByFlagRules<&Options::model>},
    {"adapter", "NAME", "the adapter; default: none", SetByFlagRules<&Options::adapter>},
    {"salt", "TEXT", "the salt; default: none", SetByFlagRules<&Options::salt>},
}};

struct FoundOption {
  const OptionInfo* info = nullptr;
  bool is_negated = false;
};

FoundOption Find(absl::string_view name) {
  if (const OptionInfo* info = FindOption(name); info != nullptr) return {.info = info};
  if (!absl::ConsumePrefix(&name, "no")) return {};
  const OptionInfo* info = FindOption(name);
  if (info == nullptr || !info->value.empty()) return {};
  return {.info = info, .is_negated = true};
}

absl::Status NoSuchOption(absl::string_view name) {
  std::vector<absl::string_view> names;
  names.reserve(kOptions.size());
  for (const OptionInfo& option : kOptions) names.push_back(option.name);
  const absl::string_view nearest = NearestName(name, names);
  return UsageError(absl::StrCat("there is no option --", Printable(name), "; ",
                                 nearest.empty() ? "`kvpoolctl COMMAND --help` lists them"
                                                 : absl::StrCat("did you mean --", nearest, "?")));
}

// Reads the option at `arguments[index]` and, where it is apart, its value; moves `index` on.
absl::Status ReadOption(std::span<const std::string> arguments, size_t& index, CommandLine& line) {
  absl::string_view text = arguments[index++];
  if (text == "-h") text = "--help";
  absl::ConsumePrefix(&text, "--");
  const size_t equals = text.find('=');
  const absl::string_view name = text.substr(0, equals);
  const FoundOption found = Find(name);
  if (found.info == nullptr) return NoSuchOption(name);
  std::string value = found.is_negated ? "false" : "true";
  if (equals != absl::string_view::npos) {
    if (found.is_negated) {
      return UsageError(absl::StrCat("--", name, " takes no value"));
    }
    value = std::string(text.substr(equals + 1));
  } else if (!found.info->value.empty()) {
    if (index == arguments.size()) {
      return UsageError(absl::StrCat("--", name, " needs a value, ", found.info->value));
    }
    value = arguments[index++];
  }
  line.option_names.emplace_back(found.info->name);
  const absl::Status status = found.info->set(value, line.options);
  return status.ok() ? status
                     : UsageError(absl::StrCat("--", found.info->name, ": ", status.message()));
}

}  // namespace

const OptionInfo* FindOption(absl::string_view name) {
  const auto* found = std::ranges::find(kOptions, name, &OptionInfo::name);
  return found == kOptions.end() ? nullptr : found;
}

absl::StatusOr<CommandLine> ParseCommandLine(std::span<const std::string> arguments) {
  CommandLine line;
  for (size_t i = 0; i < arguments.size();) {
    const absl::string_view text = arguments[i];
    if (text == "--") {
      line.words.insert(line.words.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                        arguments.end());
      break;
    }
    if (text == "-h" || absl::StartsWith(text, "--")) {
      KVPOOL_RETURN_IF_ERROR(ReadOption(arguments, i, line));
    } else if (text.size() > 1 && text.front() == '-') {
      return UsageError(absl::StrCat("\"", Printable(text), "\" is no option: they begin with --"));
    } else {
      line.words.emplace_back(text);
      ++i;
    }
  }
  return line;
}

absl::StatusOr<std::string> ChooseSocket(const Options& options, const Environment& environment) {
  std::string socket;
  if (options.socket.has_value()) {
    socket = *options.socket;
  } else if (environment.socket.has_value()) {
    socket = *environment.socket;
  } else {
    const absl::StatusOr<DefaultSockets> defaults = FindTrustedDefaultSockets(
        environment.uid,
        environment.runtime_dir.has_value() ? environment.runtime_dir->c_str() : nullptr);
    if (!defaults.ok()) return UsageError(defaults.status().message());
    socket = absl::StrCat(kUnixPrefix, defaults->operator_path);
  }
  absl::string_view path = socket;
  if (!absl::ConsumePrefix(&path, kUnixPrefix) || path.empty() || path.size() > kMaxSocketPath) {
    return UsageError(absl::StrCat("socket \"", Printable(socket),
                                   "\" is not \"unix:\" and a path ", "of 1-", kMaxSocketPath,
                                   " bytes"));
  }
  return socket;
}

}  // namespace kvpool::cli
