#include "server/rpc/session_lookup.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/unit/server_rpc/test_server.h"

namespace kvpool::test {
namespace {

using server::FindSessionByPrefix;
using server::Viewer;

TEST_CASE("A session is found by the first eight digits of its id, or more, up to all") {
  TestServer server;
  const SessionId id{.bytes = {0xAB, 0xCD, 0xEF, 1, 2}};
  server.AddSession(id);
  for (const size_t size : {size_t{8}, size_t{9}, size_t{31}, size_t{32}}) {
    const auto found =
        FindSessionByPrefix(server.sessions(), id.ToString().substr(0, size), Viewer{});
    REQUIRE(found.ok());
    CHECK(found->session == id);
  }
}

TEST_CASE("What is no beginning of an id is refused with what is taken") {
  TestServer server;
  const std::string id = SessionId{.bytes = {0xAB, 0xCD, 0xEF, 1, 2}}.ToString();
  server.AddSession({.bytes = {0xAB, 0xCD, 0xEF, 1, 2}});
  for (const std::string& wrong : {std::string(), id.substr(0, 1), id.substr(0, 7), id + "0"}) {
    CAPTURE(wrong);
    const auto found = FindSessionByPrefix(server.sessions(), wrong, Viewer{});
    CHECK(absl::IsInvalidArgument(found.status()));
    CHECK(absl::StrContains(found.status().message(),
                            absl::StrCat("session_id has ", wrong.size(),
                                         " characters; it is the first 8 of an id, as listings "
                                         "show them, or more, up to all 32")));
  }
  for (const std::string wrong : {"ABCDEF01", "xyzwxyzw", "abcdef0 ", "abcdef0\n"}) {
    CAPTURE(wrong);
    const auto found = FindSessionByPrefix(server.sessions(), wrong, Viewer{});
    CHECK(absl::IsInvalidArgument(found.status()));
    CHECK(absl::StrContains(found.status().message(), "no lower-case hex digits"));
  }
}

TEST_CASE("A beginning of several ids is refused, and one of none is not found; neither tells") {
  TestServer server;
  server.AddSession({.bytes = {1, 2, 3, 4, 5}});
  server.AddSession({.bytes = {1, 2, 3, 4, 6}});
  const auto ambiguous = FindSessionByPrefix(server.sessions(), "01020304", Viewer{});
  CHECK(absl::IsInvalidArgument(ambiguous.status()));
  CHECK(absl::StrContains(ambiguous.status().message(), "several sessions begin with 01020304;"));
  const auto none = FindSessionByPrefix(server.sessions(), "010203040a", Viewer{});
  CHECK(absl::IsNotFound(none.status()));
  CHECK(GetErrorDetail(none.status()).reason == Reason::kSessionUnknown);
  // As much of an id as listings show.
  CHECK(none.status().message() == "no session begins with 01020304");
}

}  // namespace
}  // namespace kvpool::test
