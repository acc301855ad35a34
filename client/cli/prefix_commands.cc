#include "client/cli/prefix_commands.h"

#include "absl/strings/str_cat.h"

#include "client/cli/connection.h"
#include "client/cli/json.h"
#include "client/cli/text.h"
#include "core/status_macros.h"

namespace kvpool::cli {

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
  context.out << (context.options.json
                      ? ToJson(response)
                      : absl::StrCat("forgot ", response.forgotten(), " published blocks of pool ",
                                     Printable(request.pool()), "\n"));
  return ExitCode::kOk;
}

}  // namespace kvpool::cli
