#include "client/cli/pool_commands.h"

#include "absl/strings/str_cat.h"

#include "client/cli/connection.h"
#include "client/cli/json.h"
#include "client/cli/pool_view.h"
#include "client/cli/text.h"
#include "core/layout/pool_layout.h"
#include "core/status_macros.h"
#include "proto/convert/layout_convert.h"

namespace kvpool::cli {
namespace {

absl::StatusOr<v1::PoolSpec> GivenSpec(const Options& options) {
  if (!options.spec.has_value())
    return UsageError("--spec is needed: JSON of a PoolSpec, or @FILE");
  return ReadSpec(*options.spec);
}

}  // namespace

absl::StatusOr<ExitCode> RunPools(const CommandContext& context) {
  Connection& connection = *context.connection;
  if (context.arguments.empty()) {
    v1::ListPoolsResponse response;
    KVPOOL_RETURN_IF_ERROR(connection.CallList(connection.inspect(),
                                               &v1::InspectService::Stub::ListPools,
                                               v1::ListPoolsRequest(), &response));
    context.out << (context.options.json ? ToJson(response) : PoolsText(response.pools()));
    return ExitCode::kOk;
  }
  v1::GetPoolRequest request;
  request.set_name(context.arguments[0]);
  v1::GetPoolResponse response;
  KVPOOL_RETURN_IF_ERROR(connection.Call(connection.inspect(), &v1::InspectService::Stub::GetPool,
                                         request, &response));
  context.out << (context.options.json ? ToJson(response) : PoolText(response.pool()));
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> RunPlan(const CommandContext& context) {
  KVPOOL_ASSIGN_OR_RETURN(v1::PoolSpec message, GivenSpec(context.options));
  // A geometry may be planned before it has a name.
  if (message.name().empty()) message.set_name("plan");
  if (context.options.bytes.has_value()) {
    message.set_memory_bytes(*context.options.bytes);
    message.clear_reserve_bytes();
  }
  KVPOOL_ASSIGN_OR_RETURN(const PoolSpec spec, SpecFromProto(message));
  KVPOOL_ASSIGN_OR_RETURN(const PoolLayout layout, PlanPool(spec));
  v1::PlanPoolResponse response;
  *response.mutable_layout() = LayoutToProto(layout);
  context.out << (context.options.json ? ToJson(response) : LayoutText(response.layout()));
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> RunCreatePool(const CommandContext& context) {
  Connection& connection = *context.connection;
  v1::CreatePoolRequest request;
  KVPOOL_ASSIGN_OR_RETURN(*request.mutable_spec(), GivenSpec(context.options));
  v1::CreatePoolResponse response;
  KVPOOL_RETURN_IF_ERROR(
      connection.Call(connection.admin(), &v1::AdminService::Stub::CreatePool, request, &response));
  if (context.options.json) {
    context.out << ToJson(response);
  } else {
    const v1::PoolLayout& layout = response.pool().layout();
    context.out << "created pool " << Printable(layout.spec().name()) << ": " << layout.num_blocks()
                << " blocks of " << BytesText(layout.block_bytes()) << "\n";
  }
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> RunDeletePool(const CommandContext& context) {
  Connection& connection = *context.connection;
  v1::DeletePoolRequest request;
  request.set_name(context.arguments[0]);
  v1::DeletePoolResponse response;
  KVPOOL_RETURN_IF_ERROR(
      connection.Call(connection.admin(), &v1::AdminService::Stub::DeletePool, request, &response));
  context.out << (context.options.json
                      ? ToJson(response)
                      : absl::StrCat("deleted pool ", Printable(request.name()), "\n"));
  return ExitCode::kOk;
}

}  // namespace kvpool::cli
