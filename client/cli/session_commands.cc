#include "client/cli/session_commands.h"

#include <span>

#include "absl/strings/str_cat.h"

#include "client/cli/connection.h"
#include "client/cli/json.h"
#include "client/cli/table.h"
#include "client/cli/text.h"
#include "client/cli/time_view.h"
#include "core/status_macros.h"

namespace kvpool::cli {
namespace {

std::string StateText(const v1::SessionStatus& session) {
  return EnumText(v1::SessionStatus::State_Name(session.state()), "STATE_");
}

std::string ProofText(const v1::SessionStatus& session) {
  return EnumText(v1::ReclaimProof_Name(session.reclaim_proof()), "RECLAIM_PROOF_");
}

std::string SessionsText(const v1::ListSessionsResponse& response, absl::Time now) {
  Table table({"SESSION", "POOL", "CLIENT", "TENANT", ">PID", ">UID", "STATE", ">BLOCKS", ">REFS",
               ">AGE", "JOINED"});
  for (const v1::SessionStatus& session : response.sessions()) {
    table.AddRow({session.session_id(), session.pool(), session.client_name(), session.tenant(),
                  absl::StrCat(session.pid()), absl::StrCat(session.uid()), StateText(session),
                  absl::StrCat(session.held_blocks()), absl::StrCat(session.references()),
                  AgeText(TimeOf(session.open_time()), now),
                  session.joined_session_id().empty() ? "-" : session.joined_session_id()});
  }
  return table.ToString();
}

std::string SessionText(const v1::SessionStatus& session, absl::Time now) {
  Table table;
  table.AddRow({"session", session.session_id()});
  table.AddRow({"pool", session.pool()});
  table.AddRow({"state", StateText(session)});
  table.AddRow({"client", session.client_name()});
  table.AddRow({"tenant", session.tenant()});
  table.AddRow({"model", session.model_id()});
  table.AddRow({"pid, uid", absl::StrCat(session.pid(), ", ", session.uid())});
  table.AddRow({"opened", TimeText(session.open_time(), now)});
  if (!session.joined_session_id().empty()) table.AddRow({"joined", session.joined_session_id()});
  table.AddRow({"reclaim proof", ProofText(session)});
  table.AddRow({"references", absl::StrCat(session.references())});
  table.AddRow({"held blocks", absl::StrCat(session.held_blocks())});
  const std::span<const uint32_t> ids(session.block_ids().data(),
                                      static_cast<size_t>(session.block_ids_size()));
  table.AddRow(
      {"block ids", absl::StrCat(BlockRanges(ids), session.truncated() ? ", and more" : "")});
  return table.ToString();
}

std::string TerminatedText(const v1::SessionStatus& session, bool claims_released) {
  const bool had_ended = session.state() == v1::SessionStatus::STATE_CLOSING ||
                         session.state() == v1::SessionStatus::STATE_CLAIMING;
  return absl::StrCat(had_ended ? "ended before: session " : "terminated session ",
                      Printable(session.session_id()), " of pool ", Printable(session.pool()),
                      ", client \"", Printable(session.client_name()), "\", pid ", session.pid(),
                      claims_released ? ", claims released\n" : "\n");
}

}  // namespace

absl::StatusOr<ExitCode> RunSessions(const CommandContext& context) {
  Connection& connection = *context.connection;
  v1::ListSessionsRequest request;
  if (!context.arguments.empty()) request.set_pool(context.arguments[0]);
  v1::ListSessionsResponse response;
  KVPOOL_RETURN_IF_ERROR(connection.CallList(
      connection.inspect(), &v1::InspectService::Stub::ListSessions, request, &response));
  context.out << (context.options.json ? ToJson(response) : SessionsText(response, context.now));
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> RunSession(const CommandContext& context) {
  Connection& connection = *context.connection;
  v1::GetSessionRequest request;
  request.set_session_id(context.arguments[0]);
  v1::GetSessionResponse response;
  KVPOOL_RETURN_IF_ERROR(connection.Call(
      connection.inspect(), &v1::InspectService::Stub::GetSession, request, &response));
  context.out << (context.options.json ? ToJson(response)
                                       : SessionText(response.session(), context.now));
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> RunTerminate(const CommandContext& context) {
  Connection& connection = *context.connection;
  // Looked at before it is gone, to tell what it was.
  v1::GetSessionRequest look;
  look.set_session_id(context.arguments[0]);
  v1::GetSessionResponse found;
  KVPOOL_RETURN_IF_ERROR(
      connection.Call(connection.inspect(), &v1::InspectService::Stub::GetSession, look, &found));
  v1::TerminateSessionRequest request;
  request.set_session_id(context.arguments[0]);
  request.set_release_claims(context.options.release_claims);
  v1::TerminateSessionResponse response;
  KVPOOL_RETURN_IF_ERROR(connection.Call(
      connection.admin(), &v1::AdminService::Stub::TerminateSession, request, &response));
  context.out << (context.options.json ? ToJson(response)
                                       : TerminatedText(found.session(), request.release_claims()));
  return ExitCode::kOk;
}

}  // namespace kvpool::cli
