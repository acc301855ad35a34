#include "client/cli/prefix_commands.h"

#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "client/cli/bounded_file.h"
#include "client/cli/connection.h"
#include "client/cli/json.h"
#include "client/cli/table.h"
#include "client/cli/text.h"
#include "core/status_macros.h"

namespace kvpool::cli {
namespace {

// A prompt of a million tokens of seven digits.
constexpr size_t kMaxTokenBytes = size_t{8} << 20;

absl::StatusOr<std::string> ReadTokenText(const std::string& path) {
  constexpr absl::string_view kWhat = "token file";
  return path == "-" ? ReadBounded(std::cin, "-", kWhat, kMaxTokenBytes)
                     : ReadBounded(path, kWhat, kMaxTokenBytes);
}

std::string LookupText(const v1::LookupResponse& response, size_t token_count) {
  const std::span<const uint32_t> ids(response.blocks().block_ids().data(),
                                      static_cast<size_t>(response.blocks().block_ids_size()));
  Table table;
  table.AddRow({"blocks", BlockRanges(ids)});
  table.AddRow({"matched tokens", absl::StrCat(response.matched_tokens(), " of ", token_count)});
  table.AddRow({"last key", response.last_key().empty()
                                ? "none"
                                : absl::BytesToHexString(response.last_key())});
  return table.ToString();
}

// Looks up in the name of a session, which it opens and closes.
absl::Status Lookup(Connection& connection, const v1::OpenSessionRequest& open,
                    v1::LookupRequest& request, v1::LookupResponse& response) {
  v1::OpenSessionResponse opened;
  KVPOOL_RETURN_IF_ERROR(
      connection.Call(connection.blocks(), &v1::BlockService::Stub::OpenSession, open, &opened));
  request.set_session_id(opened.session_id());
  const absl::Status status =
      connection.Call(connection.blocks(), &v1::BlockService::Stub::Lookup, request, &response);
  v1::CloseSessionRequest close;
  close.set_session_id(opened.session_id());
  v1::CloseSessionResponse closed;
  const absl::Status end =
      connection.Call(connection.blocks(), &v1::BlockService::Stub::CloseSession, close, &closed);
  return status.ok() ? end : status;
}

std::string ResetText(const v1::ResetPrefixesRequest& request, uint32_t forgotten) {
  const std::string pool = absl::StrCat(" of pool ", Printable(request.pool()));
  const std::string tenant =
      request.tenant().empty() ? "" : absl::StrCat(" of tenant ", Printable(request.tenant()));
  // The daemon knows no tenant that has nothing: one that is mistyped looks the same.
  if (forgotten == 0) return absl::StrCat("nothing", tenant, pool, " was findable\n");
  return absl::StrCat("forgot ", forgotten, " published blocks", tenant, pool, "\n");
}

}  // namespace

absl::StatusOr<ExitCode> RunReset(const CommandContext& context) {
  Connection& connection = *context.connection;
  v1::ResetPrefixesRequest request;
  request.set_pool(context.arguments[0]);
  if (context.arguments.size() > 1) {
    if (context.arguments[1].empty()) return UsageError("TENANT is empty");
    request.set_tenant(context.arguments[1]);
  }
  v1::ResetPrefixesResponse response;
  KVPOOL_RETURN_IF_ERROR(connection.Call(connection.admin(), &v1::AdminService::Stub::ResetPrefixes,
                                         request, &response));
  context.out << (context.options.json ? ToJson(response)
                                       : ResetText(request, response.forgotten()));
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> RunPrefix(const CommandContext& context) {
  if (context.arguments[0] != "lookup") {
    return UsageError(
        absl::StrCat("prefix can lookup, not \"", Printable(context.arguments[0]), "\""));
  }
  const Options& options = context.options;
  if (!options.tokens.has_value()) return UsageError("--tokens is needed");
  if (options.model.empty()) return UsageError("--model is needed: prefixes are a model's");
  KVPOOL_ASSIGN_OR_RETURN(const std::string text, ReadTokenText(*options.tokens));
  KVPOOL_ASSIGN_OR_RETURN(const std::vector<uint32_t> tokens, ParseTokens(text));
  v1::OpenSessionRequest open;
  open.set_pool(context.arguments[1]);
  open.set_client_name("kvpoolctl");
  open.set_model_id(options.model);
  v1::LookupRequest request;
  request.mutable_prefix()->mutable_tokens()->Add(tokens.begin(), tokens.end());
  request.mutable_prefix()->mutable_space()->set_adapter(options.adapter);
  request.mutable_prefix()->mutable_space()->set_salt(options.salt);
  v1::LookupResponse response;
  KVPOOL_RETURN_IF_ERROR(Lookup(*context.connection, open, request, response));
  context.out << (options.json ? ToJson(response) : LookupText(response, tokens.size()));
  return ExitCode::kOk;
}

}  // namespace kvpool::cli
