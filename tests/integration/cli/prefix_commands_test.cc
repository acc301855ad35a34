// kvpoolctl's prefix commands against a real daemon.
#include <signal.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <google/protobuf/util/json_util.h>

#include "tests/integration/support/prefix_user.h"
#include "tests/integration/support/node.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace kvpool::test {
namespace {

ChildProcess Start(Node& node, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), KVPOOL_KVPOOLCTL);
  return ChildProcess({.arguments = std::move(arguments),
                       .environment = {"KVPOOL_SOCKET=" + node.daemon().operator_socket()},
                       .stderr_path = {},
                       .uid = std::nullopt});
}

std::string Line(ChildProcess& process) {
  const std::optional<std::string> line = process.ReadLine();
  REQUIRE(line.has_value());
  return *line;
}

v1::WatchPrefixesResponse EventIn(const std::string& line) {
  v1::WatchPrefixesResponse event;
  REQUIRE(google::protobuf::util::JsonStringToMessage(line, &event).ok());
  return event;
}

TEST_CASE("watch shows a line an event, names escaped, and ends with 0 at SIGINT") {
  Node node(/*num_blocks=*/8);
  PrefixUser user(*node.Connect(), "llama\n3");
  ChildProcess watch = Start(node, {"watch", "p"});
  CHECK(Line(watch) == "- cleared");
  CHECK(absl::StrContains(Line(watch), " snapshot end, epoch "));
  const v1::Blocks blocks = user.Cache(BlocksOf({1, 2}));
  const std::string stored = Line(watch);
  CAPTURE(stored);
  CHECK(absl::StrContains(stored, " stored blocks 0-1 tenant \"uid-"));
  CHECK(absl::StrContains(stored, " model \"llama\\x0a3\" adapter \"\" parent none"));
  REQUIRE(user.TryEvict(0, blocks).ok());
  const std::string removed = Line(watch);
  CHECK(absl::StrContains(removed, " removed "));
  watch.Signal(SIGINT);
  CHECK(watch.Wait() == 0);
}

TEST_CASE("watch goes on after a number, in JSON, a line each") {
  Node node(/*num_blocks=*/8);
  PrefixUser user(*node.Connect());
  ChildProcess first = Start(node, {"watch", "p", "--json"});
  CHECK(EventIn(Line(first)).has_cleared());
  const v1::WatchPrefixesResponse end = EventIn(Line(first));
  REQUIRE(end.has_snapshot_end());
  first.Signal(SIGTERM);
  CHECK(first.Wait() == 0);
  user.Cache(BlocksOf({1, 2}));
  ChildProcess second =
      Start(node, {"watch", "p", "--json", "--with_tokens", "--epoch=" + end.daemon_epoch(),
                   absl::StrCat("--after=", end.sequence())});
  const v1::WatchPrefixesResponse stored = EventIn(Line(second));
  CHECK(stored.sequence() == end.sequence() + 2);
  CHECK(stored.stored().tokens_size() == 2 * kBlockTokens);
  second.Signal(SIGINT);
  CHECK(second.Wait() == 0);
}

TEST_CASE("watch says what it cannot do") {
  Node node(/*num_blocks=*/4);
  CHECK(Start(node, {"watch", "p", "--after=3"}).Wait() == 2);
  CHECK(Start(node, {"watch", "other"}).Wait() == 1);
  // For as long as was asked.
  CHECK(Start(node, {"watch", "p", "--timeout=100ms"}).Wait() == 0);
}

TEST_CASE("prefix lookup shows what a prompt would find, and leaves no session") {
  Node node({.pools_json = OnePool(8)});
  const TempDir directory;
  const std::string path = directory.File("tokens");
  const v1::Prefix prompt = BlocksOf({1, 2, 3});
  std::ofstream(path) << "[" << absl::StrJoin(prompt.tokens(), ", ") << "]\n";
  {
    RawClient client(node.daemon().Connect(node.daemon().operator_socket()));
    PrefixUser user(client);
    const v1::Blocks blocks = user.Cache(BlocksOf({1, 2}));
    CHECK(user.session().Close().ok());
  }
  ChildProcess lookup = Start(node, {"prefix", "lookup", "p", "--model=llama", "--tokens", path});
  const std::string text = lookup.ReadAll();
  CHECK(lookup.Wait() == 0);
  CHECK(absl::StrContains(text, "0-1"));
  CHECK(absl::StrContains(text, "32 of 48"));
  ChildProcess json = Start(
      node, {"prefix", "lookup", "p", "--model=llama", "--adapter=a", "--tokens=-", "--json"});
  json.WriteLine(absl::StrJoin(prompt.tokens(), " "));
  json.CloseStdin();
  v1::LookupResponse response;
  REQUIRE(google::protobuf::util::JsonStringToMessage(json.ReadAll(), &response).ok());
  CHECK(json.Wait() == 0);
  CHECK(response.matched_tokens() == 0);
  CHECK(node.Pool().sessions() == 0);
  CHECK(node.Pool().held_blocks() == 0);
}

TEST_CASE("prefix lookup needs a model, tokens and numbers") {
  Node node(/*num_blocks=*/4);
  const TempDir directory;
  const std::string path = directory.File("tokens");
  std::ofstream(path) << "1 2 x";
  CHECK(Start(node, {"prefix", "lookup", "p", "--tokens", path}).Wait() == 2);
  CHECK(Start(node, {"prefix", "lookup", "p", "--model=m"}).Wait() == 2);
  CHECK(Start(node, {"prefix", "lookup", "p", "--model=m", "--tokens", path}).Wait() == 2);
  CHECK(Start(node, {"prefix", "lookup", "p", "--model=m", "--tokens", path + "x"}).Wait() == 2);
  CHECK(Start(node, {"prefix", "forget", "p", "--model=m", "--tokens", path}).Wait() == 2);
}

}  // namespace
}  // namespace kvpool::test
