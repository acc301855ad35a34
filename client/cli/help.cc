#include "client/cli/help.h"

#include <span>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/cli/options.h"
#include "client/cli/table.h"
#include "core/check.h"

namespace kvpool::cli {
namespace {

constexpr absl::string_view kGlobalOptions[] = {"socket", "timeout", "json", "help", "version"};
constexpr absl::string_view kLocalOptions[] = {"json", "help", "version"};

constexpr absl::string_view kIntroduction =
    "kvpoolctl looks into a kvpool daemon and manages its pools.\n"
    "\n"
    "usage: kvpoolctl COMMAND [ARGUMENTS] [OPTIONS]\n"
    "       kvpoolctl COMMAND --help, or kvpoolctl help COMMAND\n";

constexpr absl::string_view kConclusion =
    "Where the daemon is:\n"
    "  --socket, else $KVPOOL_SOCKET, else the operator socket of the default config:\n"
    "  unix:/run/kvpool/operator/kvpool.sock for root,\n"
    "  unix:$XDG_RUNTIME_DIR/kvpool/operator/kvpool.sock for a user,\n"
    "  unix:/tmp/kvpool-UID/operator/kvpool.sock where that is not set.\n"
    "  A worker's socket answers too, with what concerns its own tenant.\n"
    "\n"
    "Exit codes:\n"
    "  0  done; health: the daemon serves\n"
    "  1  refused: by the daemon, or a plan by the same rules; health: it does not serve; doctor:\n"
    "     something is wrong\n"
    "  2  the command line, or the JSON of a spec, cannot be read\n"
    "  3  no daemon at the socket, or no answer within --timeout\n"
    "\n"
    "Examples:\n"
    "  kvpoolctl status\n"
    "  kvpoolctl plan --bytes=80GiB --spec='{\"num_layers\": 32, \"num_kv_heads\": 8,\n"
    "      \"head_dim\": 128, \"dtype\": \"bf16\"}'\n"
    "  kvpoolctl create-pool --spec=@llama.json\n"
    "  kvpoolctl sessions llama --json\n"
    "  kvpoolctl block llama 17\n";

std::string Indented(const Table& table) {
  std::string text;
  std::string line = "  ";
  for (const char c : table.ToString()) {
    line.push_back(c);
    if (c != '\n') continue;
    absl::StrAppend(&text, line);
    line = "  ";
  }
  return text;
}

std::string OptionsHelp(std::span<const absl::string_view> own,
                        std::span<const absl::string_view> shared) {
  Table table;
  for (const std::span<const absl::string_view> names : {own, shared}) {
    for (const absl::string_view name : names) {
      const OptionInfo* info = FindOption(name);
      KVPOOL_CHECK(info != nullptr);
      table.AddRow({absl::StrCat("--", name, info->value.empty() ? "" : "=", info->value),
                    std::string(info->help)});
    }
  }
  return Indented(table);
}

}  // namespace

std::string OverviewHelp() {
  Table commands;
  for (const Command& command : Commands()) {
    commands.AddRow(
        {absl::StrCat(command.name, command.arguments.empty() ? "" : " ", command.arguments),
         std::string(command.summary)});
  }
  return absl::StrCat(kIntroduction, "\nCommands:\n", Indented(commands), "\nOptions:\n",
                      OptionsHelp({}, kGlobalOptions), "\n", kConclusion);
}

std::string UsageLine(const Command& command) {
  return absl::StrCat("usage: kvpoolctl ", command.name, command.arguments.empty() ? "" : " ",
                      command.arguments, command.needed_options.empty() ? "" : " ",
                      command.needed_options, " [OPTIONS]");
}

std::string CommandHelp(const Command& command) {
  std::string text = absl::StrCat(UsageLine(command), "\n\n", command.help, "\nOptions:\n");
  std::span<const absl::string_view> shared = kGlobalOptions;
  if (!command.needs_daemon) shared = kLocalOptions;
  absl::StrAppend(&text, OptionsHelp(command.options, shared));
  if (command.needs_daemon) {
    absl::StrAppend(&text, "\n",
                    command.is_endless ? "There is no default timeout. "
                                       : absl::StrCat("The default timeout is ",
                                                      absl::FormatDuration(command.timeout), ". "),
                    "`kvpoolctl --help` tells where the daemon is looked for.\n");
  }
  return text;
}

}  // namespace kvpool::cli
