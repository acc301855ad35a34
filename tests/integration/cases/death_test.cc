// Workers that are killed, stopped, mistaken for another.
#include <signal.h>

#include <algorithm>
#include <future>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "client/options.h"
#include "tests/integration/support/node.h"
#include "tests/integration/support/region.h"
#include "tests/integration/support/worker.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

// The ID:GENERATION pairs of a worker's answer.
std::vector<std::string> Refs(const std::string& answer) {
  std::vector<std::string> words = absl::StrSplit(answer, ' ');
  REQUIRE(words[0] == "ok");
  words.erase(words.begin());
  return words;
}

std::string IdOf(const std::string& ref) { return ref.substr(0, ref.find(':')); }

TEST_CASE("A worker killed before its first block or in full work leaves nothing") {
  Node node(/*num_blocks=*/64);
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    Worker worker(node.daemon().worker_socket());
    if (round % 2 == 0) {
      REQUIRE(worker.Ask("map") == "ok");
    } else {
      REQUIRE(absl::StartsWith(worker.Ask("alloc 50"), "ok "));
      REQUIRE(worker.Ask("write 7") == "ok");
      worker.Tell("write 8");  // Killed in the middle of it, as like as not.
    }
    worker.Kill();
    REQUIRE(node.BecomeFree(64));
    REQUIRE(Eventually([&] { return node.Pool().sessions() == 0; }));
  }
  Worker next(node.daemon().worker_socket());
  CHECK(absl::StartsWith(next.Ask("alloc 64"), "ok "));
  CHECK(next.Leave() == "ok");
  node.CheckAllIsBack();
}

TEST_CASE("A killed worker's half-written block serves the next as if it were new") {
  Node node(/*num_blocks=*/1);
  Worker killed(node.daemon().worker_socket());
  const std::string ref = Refs(killed.Ask("alloc 1")).at(0);
  REQUIRE(killed.Ask("write-half 255") == "ok");
  killed.Kill();
  REQUIRE(node.BecomeFree(1));

  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  v1::AllocRequest request;
  request.set_count(1);
  request.set_fill(v1::FILL_ZERO);
  const auto answer = session->Alloc(request);
  REQUIRE(Said(answer) == "OK");
  CHECK(absl::StrCat(answer->blocks().block_ids(0)) == IdOf(ref));
  CHECK(absl::StrCat(0, ":", answer->blocks().generations(0)) != ref);
  for (const v1::BlockPiece& piece : Value(session->Read(answer->blocks()))) {
    CHECK(piece.data() == std::string(piece.data().size(), '\0'));
  }
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A block that a killed worker shared stays with the other, its bytes unharmed") {
  Node node(/*num_blocks=*/4);
  Worker killed(node.daemon().worker_socket(), "p", "first");
  Worker other(node.daemon().worker_socket(), "p", "second");
  const std::string ref = Refs(killed.Ask("alloc 1")).at(0);
  REQUIRE(killed.Ask("write 42") == "ok");
  REQUIRE(other.Ask("take " + ref) == "ok");
  REQUIRE(other.Ask("map") == "ok");
  killed.Kill();
  REQUIRE(Eventually([&] { return node.Pool().sessions() == 1; }));

  CHECK(other.Ask("read " + IdOf(ref)) == "ok 42");
  CHECK(Refs(other.Ask("alloc 3")).size() == 4);
  CHECK(absl::StartsWith(other.Ask("alloc 1"), "error RESOURCE_EXHAUSTED POOL_FULL"));
  CHECK(other.Leave() == "ok");
  node.CheckAllIsBack();
}

TEST_CASE("Two workers use the same bytes in place by handing over ids and generations") {
  Node node(/*num_blocks=*/4);
  Worker writer(node.daemon().worker_socket(), "p", "writer");
  Worker reader(node.daemon().worker_socket(), "p", "reader");
  const std::vector<std::string> refs = Refs(writer.Ask("alloc 2"));
  REQUIRE(writer.Ask("write 17") == "ok");
  REQUIRE(reader.Ask("take " + refs[0] + " " + refs[1]) == "ok");
  REQUIRE(reader.Ask("map") == "ok");
  CHECK(reader.Ask("read " + IdOf(refs[0])) == "ok 17");

  // One memory: what is written on one side is there on the other, without any call.
  REQUIRE(writer.Ask("write 18") == "ok");
  CHECK(reader.Ask("read " + IdOf(refs[1])) == "ok 18");

  CHECK(writer.Leave() == "ok");
  CHECK(node.Pool().held_blocks() == 2);
  CHECK(reader.Ask("read " + IdOf(refs[0])) == "ok 18");
  CHECK(reader.Leave() == "ok");
  node.CheckAllIsBack();
}

TEST_CASE("A stale generation is refused once the block has changed hands") {
  Node node(/*num_blocks=*/1);
  Worker first(node.daemon().worker_socket(), "p", "first");
  Worker second(node.daemon().worker_socket(), "p", "second");
  const std::string stale = Refs(first.Ask("alloc 1")).at(0);
  REQUIRE(first.Ask("drop") == "ok");
  CHECK(absl::StartsWith(second.Ask("take " + stale), "error FAILED_PRECONDITION"));
  REQUIRE(Refs(first.Ask("alloc 1")).size() == 1);
  CHECK(absl::StartsWith(second.Ask("take " + stale), "error FAILED_PRECONDITION STALE_BLOCK"));
  CHECK(first.Leave() == "ok");
  CHECK(second.Leave() == "ok");
  node.CheckAllIsBack();
}

TEST_CASE(
    "A worker stopped for longer than the pings loses its session, is told once, and opens "
    "another") {
  Node node({.pools_json = OnePool(8), .flags = {"--keepalive=1500ms"}});
  Worker worker(node.daemon().worker_socket());
  const std::string ref = Refs(worker.Ask("alloc 2")).at(0);
  REQUIRE(worker.Ask("keep") == "ok");
  worker.Tell("stop");
  // Its process may still write once it goes on, so its blocks are nobody else's.
  REQUIRE(Eventually([&] { return node.Pool().quarantined_blocks() == 2; }));
  CHECK(node.Pool().held_blocks() == 0);
  worker.process().Signal(SIGCONT);
  REQUIRE(worker.Answer() == "ok");

  CHECK(absl::StartsWith(worker.Ask("alloc 1"), "error NOT_FOUND SESSION_UNKNOWN"));
  CHECK(absl::StartsWith(worker.Ask("alive"), "error "));
  const int lost = static_cast<int>(client::Notice::Kind::kLost);
  CHECK(worker.Ask(absl::StrCat("notice ", lost)) == "ok");
  CHECK(worker.Ask("close") == "ok");  // It vouches that it writes no more.
  CHECK(node.BecomeFree(8));
  CHECK(worker.Ask("open p again") == "ok");
  CHECK(absl::StartsWith(worker.Ask("take " + ref), "error FAILED_PRECONDITION"));
  CHECK(Refs(worker.Ask("alloc 8")).size() == 8);

  // The blocks of the old session are the new one's now. What names them by the old has no say.
  CHECK(absl::StartsWith(worker.Ask("take " + ref), "error FAILED_PRECONDITION STALE_BLOCK"));
  CHECK(worker.Ask("drop-kept") == "ok");
  CHECK(node.eyes().ListSessions("p")->at(0).references() == 8);
  CHECK(worker.Ask(absl::StrCat("notices ", lost)) == "ok 1");
  CHECK(worker.Leave() == "ok");
  node.CheckAllIsBack();
}

TEST_CASE("A forked child that keeps the socket keeps no session alive") {
  Node node(/*num_blocks=*/8);
  Worker worker(node.daemon().worker_socket());
  REQUIRE(absl::StartsWith(worker.Ask("alloc 4"), "ok "));
  const std::string answer = worker.Ask("fork");
  REQUIRE(absl::StartsWith(answer, "ok "));
  const pid_t child = std::stoi(answer.substr(3));
  worker.Kill();
  CHECK(Eventually([&] { return node.Pool().sessions() == 0; }));
  CHECK(node.BecomeFree(8));
  CHECK(kill(child, 0) == 0);
  REQUIRE(kill(child, SIGKILL) == 0);
  node.CheckAllIsBack();
}

TEST_CASE("Two workers of one name and pid have two sessions") {
  Node node(/*num_blocks=*/8);
  const auto first_client = node.Connect();
  const auto second_client = node.Connect();
  v1::OpenSessionRequest request;
  request.set_client_name("w0");
  request.set_pid(1);
  const auto first = *RawSession::Open(*first_client, request);
  const auto second = *RawSession::Open(*second_client, request);
  CHECK(first->id() != second->id());
  REQUIRE(first->Attach().ok());
  REQUIRE(second->Attach().ok());
  const v1::Blocks of_first = *first->Alloc(3);
  const v1::Blocks of_second = *second->Alloc(3);
  CHECK(Said(second->DecRef(of_first)) == "FAILED_PRECONDITION NOT_HELD");

  SECTION("one is closed") { CHECK(first->Close().ok()); }
  SECTION("one breaks off") {
    first->Detach();
    REQUIRE(Eventually([&] { return node.Pool().quarantined_blocks() == 3; }));
    CHECK(first->Close().ok());
  }
  CHECK(second->DecRef(of_second)->available() == 8);
  CHECK(second->Close().ok());
  first->Detach();
  second->Detach();
  node.CheckAllIsBack();
}

// As in containers, each of which has a process 1.
TEST_CASE(
    "Of two workers that say they are process 1 of one name, one dies and the other goes on") {
  Node node(/*num_blocks=*/8);
  Worker killed(node.daemon().worker_socket(), "p", "w0", /*said_pid=*/1);
  Worker other(node.daemon().worker_socket(), "p", "w0", /*said_pid=*/1);
  REQUIRE(killed.Ask("id") != other.Ask("id"));
  REQUIRE(Refs(killed.Ask("alloc 3")).size() == 3);
  REQUIRE(Refs(other.Ask("alloc 3")).size() == 3);
  REQUIRE(other.Ask("write 5") == "ok");
  killed.Kill();

  REQUIRE(node.BecomeFree(5));
  REQUIRE(Eventually([&] { return node.Pool().sessions() == 1; }));
  CHECK(other.Ask("alive") == "ok");
  CHECK(node.Pool().held_blocks() == 3);
  node.CheckDrainBeside();
  CHECK(other.Ask("read 3") == "ok 5");
  CHECK(Refs(other.Ask("alloc 5")).size() == 8);
  CHECK(other.Leave() == "ok");
  node.CheckAllIsBack();
}

// Field cases 111 and 112.
TEST_CASE("Workers in containers of their own share bytes, and one that is killed leaves nothing") {
  const std::vector<std::string> container = {"/usr/bin/unshare", "--mount",     "--ipc", "--pid",
                                              "--fork",           "--kill-child"};
  {
    std::vector<std::string> arguments = container;
    arguments.emplace_back("/bin/true");
    ChildProcess probe(
        {.arguments = arguments, .environment = {}, .stderr_path = "/dev/null", .uid = {}});
    if (probe.Wait() != 0) return;  // Not root, or not permitted.
  }
  Node node(/*num_blocks=*/8);
  // Each is process 1 of its own, and sees no other.
  Worker writer(node.daemon().worker_socket(), "p", "writer", {}, container);
  Worker reader(node.daemon().worker_socket(), "p", "reader", {}, container);
  const std::vector<std::string> refs = Refs(writer.Ask("alloc 2"));
  REQUIRE(refs.size() == 2);
  REQUIRE(writer.Ask("map") == "ok");
  REQUIRE(writer.Ask("write 7") == "ok");
  REQUIRE(reader.Ask("take " + refs[0]) == "ok");
  REQUIRE(reader.Ask("map") == "ok");
  CHECK(reader.Ask("read " + refs[0].substr(0, refs[0].find(':'))) == "ok 7");

  writer.Kill();
  REQUIRE(Eventually([&] { return node.Pool().sessions() == 1; }));
  CHECK(node.BecomeFree(7));
  CHECK(reader.Ask("read " + refs[0].substr(0, refs[0].find(':'))) == "ok 7");
  CHECK(reader.Leave() == "ok");
  node.CheckAllIsBack();
}

TEST_CASE("A worker goes on when another of the same pool closes or is killed") {
  Node node(/*num_blocks=*/8);
  Worker stays(node.daemon().worker_socket(), "p", "stays");
  const std::string ref = Refs(stays.Ask("alloc 1")).at(0);
  REQUIRE(stays.Ask("write 3") == "ok");
  for (const bool is_killed : {false, true}) {
    CAPTURE(is_killed);
    Worker leaves(node.daemon().worker_socket(), "p", "leaves");
    REQUIRE(absl::StartsWith(leaves.Ask("alloc 5"), "ok "));
    REQUIRE(leaves.Ask("write 9") == "ok");
    if (is_killed) {
      leaves.Kill();
    } else {
      REQUIRE(leaves.Leave() == "ok");
    }
    REQUIRE(node.BecomeFree(7));
    CHECK(stays.Ask("read " + IdOf(ref)) == "ok 3");
    CHECK(stays.Ask("alive") == "ok");
  }
  CHECK(Refs(stays.Ask("alloc 7")).size() == 8);
  CHECK(stays.Leave() == "ok");
  node.CheckAllIsBack();
}

TEST_CASE("A killed worker's successor has nothing of it, and late calls under the old id fail") {
  Node node(/*num_blocks=*/8);
  const std::string unknown = "NOT_FOUND SESSION_UNKNOWN";
  const auto late_client = node.Connect();
  const auto holder = *RawSession::Open(*node.Connect(), {});
  Worker old(node.daemon().worker_socket(), "p", "w0");
  const std::vector<std::string> refs = Refs(old.Ask("alloc 3"));
  REQUIRE(Said(holder->Alloc(5)) == "OK");
  // Calls under the old id that come by another connection, as through a proxy.
  v1::OpenSessionResponse opened = holder->opened();
  opened.set_session_id(old.Ask("id").substr(3));
  RawSession late(*late_client, opened);
  auto waiting =
      std::async(std::launch::async, [&] { return late.AllocWaiting(1, std::chrono::minutes(4)); });
  REQUIRE(node.BecomeWaiting(1));
  old.Kill();
  CHECK(Said(waiting.get()) == unknown);
  REQUIRE(node.BecomeFree(3));

  Worker successor(node.daemon().worker_socket(), "p", "w0");
  CHECK(successor.Ask("refs") == "ok");
  CHECK(successor.Ask("id").substr(3) != late.id());
  REQUIRE(Eventually([&] { return node.Pool().sessions() == 2; }));
  REQUIRE(Refs(successor.Ask("alloc 1")).size() == 1);
  v1::Blocks block = Id(static_cast<uint32_t>(std::stoul(refs.at(0))));
  block.add_generations(std::stoull(refs.at(0).substr(refs.at(0).find(':') + 1)));
  CHECK(Said(late.Alloc(1)) == unknown);
  CHECK(Said(late.IncRef(block)) == unknown);
  CHECK(Said(late.DecRef(block)) == unknown);
  CHECK(Said(late.Read(block)) == unknown);
  CHECK(Said(late.Write(block.block_ids(0), 0, v1::SIDE_K, 0, "x")) == unknown);
  CHECK(Said(late.Attach()) == unknown);
  CHECK(Said(AskForRegion(node.daemon().worker_socket(), late.id(),
                          opened.regions(0).region_id())) == unknown);
  CHECK(node.eyes().ListSessions("p")->size() == 2);
  CHECK(node.Pool().held_blocks() == 6);
  node.CheckCounts();
  node.CheckDrainBeside();
  CHECK(successor.Leave() == "ok");
  CHECK(holder->Close().ok());
  node.CheckAllIsBack();
}

// Other workers are served while a large session's references are dropped in slices.
TEST_CASE("A new session opens within two seconds of the end of one with a million blocks",
          "[host]") {
  constexpr uint32_t kBlocks = UnlessSanitized(1'000'000, 200'000);
  Node node({.pools_json = absl::StrCat(R"([{"name": "p", "num_blocks": )", kBlocks,
                                        R"(, "num_layers": 1, "dtype": "raw", "raw_token_bytes": 1,
                                           "v_mode": "V_MODE_NONE"}])")});
  Worker worker(node.daemon().worker_socket());
  REQUIRE(worker.Ask(absl::StrCat("alloc-many ", kBlocks)) == "ok");
  REQUIRE(node.Pool().held_blocks() == kBlocks);
  const auto client = node.Connect();
  worker.Kill();

  v1::OpenSessionRequest request;
  request.set_pool("p");
  const auto opened = client->OpenSession(request, std::chrono::seconds(2));
  REQUIRE(Said(opened) == "OK");
  RawSession session(*client, *opened);
  REQUIRE(Said(session.Attach()) == "OK");
  // While the rest goes on, there is room for who does not wait.
  REQUIRE(Eventually([&] { return node.FreeBlocks() > 0; }));
  CHECK(Said(session.Alloc(1)) == "OK");
  CHECK(node.BecomeFree(kBlocks - 1));
  CHECK(session.Close().ok());
  session.Detach();
  node.CheckAllIsBack();
}

}  // namespace
}  // namespace kvpool::test
