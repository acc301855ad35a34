#include <string>

#include "kvpool/v1/admin.pb.h"
#include "kvpool/v1/inspect.pb.h"
#include "tests/support/catch.h"
#include "tests/unit/cli/run_cli.h"

namespace kvpool::cli {
namespace {

using test::CliFixture;
using test::CliResult;

v1::SessionStatus Session() {
  v1::SessionStatus session;
  session.set_session_id("0123abcd");
  session.set_pool("llama");
  session.set_client_name("prefill");
  session.set_tenant("uid-7");
  session.set_pid(42);
  session.set_uid(7);
  session.mutable_open_time()->set_seconds(absl::ToUnixSeconds(test::Now()) - 75);
  session.set_held_blocks(4);
  session.set_references(5);
  session.set_model_id("m@1");
  session.set_state(v1::SessionStatus::STATE_ATTACHED);
  session.set_reclaim_proof(v1::RECLAIM_PROOF_DELAY);
  return session;
}

TEST_CASE("sessions shows a line for each session") {
  CliFixture fixture;
  v1::ListSessionsResponse response;
  *response.add_sessions() = Session();
  fixture.daemon.Answer("ListSessions", response);
  const CliResult result = fixture.Run({"sessions"});
  CHECK(result.code == ExitCode::kOk);
  CHECK(result.out ==
        "SESSION   POOL   CLIENT   TENANT  PID  UID  STATE     BLOCKS  REFS    AGE  JOINED\n"
        "0123abcd  llama  prefill  uid-7    42    7  attached       4     5  1m15s  -\n");
  CHECK(fixture.daemon.LastRequest("ListSessions").empty());

  CHECK(fixture.Run({"sessions", "llama", "--json"}).out.find("\"references\": \"5\"") !=
        std::string::npos);
  CHECK(fixture.daemon.LastRequest("ListSessions") == "pool: \"llama\"");
}

TEST_CASE("A client's name cannot reach the terminal") {
  CliFixture fixture;
  v1::ListSessionsResponse response;
  *response.add_sessions() = Session();
  response.mutable_sessions(0)->set_client_name("\x1b[2J\nfake");
  fixture.daemon.Answer("ListSessions", response);
  const CliResult result = fixture.Run({"sessions"});
  CHECK(result.out.find('\x1b') == std::string::npos);
  CHECK(result.out.find("\\x1b[2J\\x0afake") != std::string::npos);
}

TEST_CASE("session shows all about one, its blocks as runs") {
  CliFixture fixture;
  v1::GetSessionResponse response;
  *response.mutable_session() = Session();
  for (const uint32_t id : {0U, 1U, 2U, 9U}) response.mutable_session()->add_block_ids(id);
  fixture.daemon.Answer("GetSession", response);
  const CliResult result = fixture.Run({"session", "0123"});
  CHECK(result.code == ExitCode::kOk);
  CHECK(fixture.daemon.LastRequest("GetSession") == "session_id: \"0123\"");
  CHECK(result.out ==
        "session        0123abcd\n"
        "pool           llama\n"
        "state          attached\n"
        "client         prefill\n"
        "tenant         uid-7\n"
        "model          m@1\n"
        "pid, uid       42, 7\n"
        "opened         2026-01-31T11:58:45Z (1m15s ago)\n"
        "reclaim proof  delay\n"
        "references     5\n"
        "held blocks    4\n"
        "block ids      0-2, 9\n");

  response.mutable_session()->set_truncated(true);
  response.mutable_session()->set_joined_session_id("89abcdef");
  fixture.daemon.Answer("GetSession", response);
  const CliResult truncated = fixture.Run({"session", "0123"});
  CHECK(truncated.out.find("block ids      0-2, 9, and more\n") != std::string::npos);
  CHECK(truncated.out.find("joined         89abcdef\n") != std::string::npos);
  CHECK(fixture.Run({"session", "0123", "--json"}).out.find("\"blockIds\": [") !=
        std::string::npos);
}

TEST_CASE("terminate tells what it ended, and releases claims only when told") {
  CliFixture fixture;
  v1::GetSessionResponse look;
  *look.mutable_session() = Session();
  fixture.daemon.Answer("GetSession", look);
  fixture.daemon.Answer("TerminateSession", v1::TerminateSessionResponse());
  CHECK(fixture.Run({"terminate", "0123abcd"}).out ==
        "terminated session 0123abcd of pool llama, client \"prefill\", pid 42\n");
  CHECK(fixture.daemon.LastRequest("GetSession") == "session_id: \"0123abcd\"");
  CHECK(fixture.daemon.LastRequest("TerminateSession") == "session_id: \"0123abcd\"");
  look.mutable_session()->set_state(v1::SessionStatus::STATE_CLAIMING);
  fixture.daemon.Answer("GetSession", look);
  CHECK(fixture.Run({"terminate", "0123abcd", "--release_claims"}).out ==
        "ended before: session 0123abcd of pool llama, client \"prefill\", pid 42, claims "
        "released\n");
  CHECK(fixture.daemon.LastRequest("TerminateSession") ==
        "session_id: \"0123abcd\" release_claims: true");
  CHECK(fixture.Run({"terminate", "0123abcd", "--json"}).out == "{}\n");
}

TEST_CASE("terminate ends nothing where the session is not found") {
  CliFixture fixture;
  fixture.daemon.Fail("GetSession", absl::StatusCode::kNotFound, Reason::kSessionUnknown, "none");
  fixture.daemon.Answer("TerminateSession", v1::TerminateSessionResponse());
  CHECK(fixture.Run({"terminate", "0123abcd"}).code == ExitCode::kRefused);
  CHECK(fixture.daemon.LastRequest("TerminateSession").empty());
}

}  // namespace
}  // namespace kvpool::cli
