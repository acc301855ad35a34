#include "client/cli/watch_command.h"

#include <span>
#include <stop_token>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "client/cli/connection.h"
#include "client/cli/json.h"
#include "client/cli/text.h"
#include "core/status_macros.h"

namespace kvpool::cli {
namespace {

std::string Quoted(absl::string_view name) { return absl::StrCat("\"", Printable(name), "\""); }

std::string KeyText(absl::string_view key) {
  return key.empty() ? "none" : absl::BytesToHexString(key);
}

std::string StoredText(const v1::WatchPrefixesResponse::Stored& stored) {
  const std::span<const uint32_t> ids(stored.blocks().block_ids().data(),
                                      static_cast<size_t>(stored.blocks().block_ids_size()));
  std::string text =
      absl::StrCat("stored blocks ", BlockRanges(ids), " tenant ", Quoted(stored.tenant()),
                   " model ", Quoted(stored.model_id()), " adapter ", Quoted(stored.adapter()),
                   " parent ", KeyText(stored.parent_key()), " last ",
                   stored.keys().empty() ? "none" : KeyText(*stored.keys().rbegin()));
  if (!stored.tokens().empty()) absl::StrAppend(&text, " tokens ", stored.tokens_size());
  return text;
}

std::string RemovedText(const v1::WatchPrefixesResponse::Removed& removed) {
  std::string text = "removed";
  for (const std::string& key : removed.keys()) absl::StrAppend(&text, " ", KeyText(key));
  return text;
}

// One line: the number ("-" for a snapshot's entries), and what happened.
std::string EventText(const v1::WatchPrefixesResponse& event) {
  std::string text = event.sequence() == 0 ? "- " : absl::StrCat(event.sequence(), " ");
  switch (event.event_case()) {
    case v1::WatchPrefixesResponse::kStored:
      return absl::StrCat(text, StoredText(event.stored()), "\n");
    case v1::WatchPrefixesResponse::kRemoved:
      return absl::StrCat(text, RemovedText(event.removed()), "\n");
    case v1::WatchPrefixesResponse::kCleared:
      return event.cleared().tenant().empty()
                 ? absl::StrCat(text, "cleared\n")
                 : absl::StrCat(text, "cleared tenant ", Quoted(event.cleared().tenant()), "\n");
    case v1::WatchPrefixesResponse::kSnapshotEnd:
      return absl::StrCat(text, "snapshot end, epoch ", Printable(event.daemon_epoch()), "\n");
    case v1::WatchPrefixesResponse::kHeartbeat:
      return absl::StrCat(text, "heartbeat\n");
    case v1::WatchPrefixesResponse::kResync:
      return absl::StrCat(text, "resync: ", Printable(event.resync().reason()), "\n");
    case v1::WatchPrefixesResponse::EVENT_NOT_SET:
      break;
  }
  return absl::StrCat(text, "an event that this kvpoolctl does not know\n");
}

}  // namespace

absl::StatusOr<ExitCode> RunWatch(const CommandContext& context) {
  const Options& options = context.options;
  if (options.after.has_value() != options.epoch.has_value()) {
    return UsageError("--after and --epoch go together: a number means something to one daemon");
  }
  v1::WatchPrefixesRequest request;
  request.set_pool(context.arguments[0]);
  request.set_after_sequence(options.after.value_or(0));
  request.set_daemon_epoch(options.epoch.value_or(""));
  request.set_with_tokens(options.with_tokens);
  bool has_events = false;
  bool is_lost = false;
  // At SIGINT or SIGTERM, or when what is told goes nowhere: a disk is full.
  std::stop_source end;
  const std::stop_callback on_signal(context.stop, [&end] { end.request_stop(); });
  Connection& connection = *context.connection;
  const absl::Status status = connection.CallStream<v1::WatchPrefixesResponse>(
      connection.inspect(), &v1::InspectService::Stub::WatchPrefixes, request, end.get_token(),
      [&](const v1::WatchPrefixesResponse& event) {
        has_events = true;
        is_lost = event.has_resync();
        // Whoever reads has each line at once.
        context.out << (options.json ? ToJsonLine(event) : EventText(event)) << std::flush;
        if (!context.out) end.request_stop();
      });
  if (end.stop_requested()) return ExitCode::kOk;  // Of lost output, who has it tells.
  // It was to watch for that long.
  if (absl::IsDeadlineExceeded(status) && has_events) return ExitCode::kOk;
  KVPOOL_RETURN_IF_ERROR(status);
  if (is_lost) return absl::AbortedError("changes were lost: watch anew");
  return ExitCode::kOk;
}

}  // namespace kvpool::cli
