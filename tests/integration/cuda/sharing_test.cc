// What workers and daemon share where a pool is on a GPU, and what their ends leave of it.
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "tests/integration/support/log_lines.h"
#include "tests/integration/support/node.h"
#include "tests/integration/support/worker.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

// The only block of a worker's answer, as ID:GENERATION.
std::string OneRef(const std::string& answer) {
  const std::vector<std::string> words = absl::StrSplit(answer, ' ');
  REQUIRE(words.size() == 2);
  REQUIRE(words[0] == "ok");
  return words[1];
}

std::string IdOf(const std::string& ref) { return ref.substr(0, ref.find(':')); }

// How often the log of a process's driver has a call that succeeded.
size_t CountCalls(const std::string& log, const std::string& call) {
  std::ifstream file(log);
  size_t count = 0;
  for (std::string line; std::getline(file, line);) count += line == call + " 0" ? 1U : 0U;
  return count;
}

TEST_CASE("A worker opens a GPU pool's memory once, however often it maps it, and closes it") {
  Node node(/*num_blocks=*/4);
  const std::string log = node.daemon().directory().File("calls");
  Worker worker(node.daemon().worker_socket(), "p", "worker", {},
                {"/usr/bin/env", "FAKECUDA_LOG=" + log});
  for (int i = 0; i < 3; ++i) REQUIRE(worker.Ask("map") == "ok");
  CHECK(CountCalls(log, "cuIpcOpenMemHandle") == 1);
  CHECK(CountCalls(log, "cuIpcCloseMemHandle") == 0);
  const std::string ref = OneRef(worker.Ask("alloc 1"));
  REQUIRE(worker.Ask("write 5") == "ok");
  CHECK(worker.Ask("read " + IdOf(ref)) == "ok 5");
  CHECK(worker.Leave() == "ok");
  CHECK(CountCalls(log, "cuIpcCloseMemHandle") == 1);
  node.CheckAllIsBack();
}

TEST_CASE("A pool's shards are on GPUs of their own, and a block's bytes are apart in them") {
  Node node({.pools_json = OnePool(4, R"(, "devices": ["cuda:0", "cuda:1"])")});
  const auto client = node.Connect();
  const auto session = Value(RawSession::Open(*client, {}));
  const auto& spec = session->opened().layout().spec();
  REQUIRE(session->opened().regions_size() == 2);
  REQUIRE(spec.devices_size() == 2);
  CHECK(spec.devices(0) != spec.devices(1));
  const v1::Blocks blocks = Value(session->Alloc(2));

  v1::WriteBlocksRequest write;
  write.set_session_id(session->id());
  write.mutable_piece()->set_side(v1::SIDE_K);
  write.mutable_piece()->set_shard(1);
  write.mutable_piece()->set_data("shard 1");
  REQUIRE(Said(client->WriteBlocks({write})) == "OK");
  REQUIRE(Said(session->Copy(Id(0), Id(1))) == "OK");
  for (const uint32_t shard : {0U, 1U}) {
    CAPTURE(shard);
    v1::ReadBlocksRequest read;
    read.set_session_id(session->id());
    read.set_shard(shard);
    *read.mutable_blocks() = blocks;
    std::string bytes;
    for (const v1::BlockPiece& piece : Value(client->ReadBlocks(read))) bytes += piece.data();
    REQUIRE(bytes.size() == 2 * 4096);
    const std::string expected = shard == 1 ? "shard 1" : std::string(7, '\0');
    CHECK(bytes.substr(0, 7) == expected);
    CHECK(bytes.substr(4096, 7) == expected);
  }
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A GPU pool refuses a worker of the daemon's pid, and says what to do") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  v1::OpenSessionRequest request;
  request.set_pid(node.daemon().process().pid());
  const auto refused = RawSession::Open(*client, request);
  CHECK(Said(refused) == "FAILED_PRECONDITION PID_COLLISION");
  CHECK(absl::StrContains(refused.status().message(),
                          absl::StrCat("both have pid ", node.daemon().process().pid())));
  CHECK(absl::StrContains(refused.status().message(), "start one of them under another pid"));
  CHECK(node.Pool().sessions() == 0);
  node.CheckAllIsBack();
}

TEST_CASE("A GPU pool refuses a worker that sees none of its GPUs, and names those of both") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  const auto session = Value(RawSession::Open(*client, {}));
  const std::string of_pool = session->opened().layout().spec().devices(0).substr(5);
  REQUIRE(absl::StartsWith(of_pool, "GPU-"));
  v1::OpenSessionRequest request;
  request.add_device_uuids("GPU-00000000-0000-0000-0000-000000000001");
  request.add_device_uuids("MIG-00000000-0000-0000-0000-000000000002");
  const auto refused = RawSession::Open(*client, request);
  CHECK(Said(refused) == "FAILED_PRECONDITION DEVICE");
  for (const std::string& uuid : {of_pool, request.device_uuids(0), request.device_uuids(1)}) {
    CAPTURE(uuid);
    CHECK(absl::StrContains(refused.status().message(), uuid));
  }
  request.add_device_uuids(of_pool);
  const auto other = Value(RawSession::Open(*client, request));
  CHECK(other->Close().ok());
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

// Its kernels go on when its connection is gone: only the end of its process is an end of them.
TEST_CASE("What a worker that lost its connection may write to is nobody else's while it lives") {
  Node node(/*num_blocks=*/4);
  Worker writer(node.daemon().worker_socket(), "p", "writer");
  Worker other(node.daemon().worker_socket(), "p", "other");
  const std::string shared = OneRef(writer.Ask("alloc 1"));
  REQUIRE(other.Ask("take " + shared) == "ok");
  REQUIRE(absl::StartsWith(writer.Ask("alloc 1"), "ok "));
  REQUIRE(writer.Ask("write 1") == "ok");
  REQUIRE(writer.Ask("cut") == "ok");
  REQUIRE(Eventually([&] { return node.Pool().quarantined_blocks() == 1; }));
  CHECK(node.Pool().held_blocks() == 1);

  // It is given neither the one that only the writer had, nor the shared one once that is let go.
  REQUIRE(other.Ask("drop") == "ok");
  REQUIRE(Eventually([&] { return node.Pool().quarantined_blocks() == 2; }));
  REQUIRE(absl::StartsWith(other.Ask("alloc 2"), "ok "));
  REQUIRE(other.Ask("write 2") == "ok");
  const std::vector<std::string> own = absl::StrSplit(other.Ask("refs"), ' ');
  CHECK(absl::StartsWith(other.Ask("alloc 1"), "error RESOURCE_EXHAUSTED POOL_FULL"));
  for (const char* byte : {"3", "4", "5"}) {
    REQUIRE(writer.Ask(absl::StrCat("write ", byte)) == "ok");
    for (size_t i = 1; i < own.size(); ++i) CHECK(other.Ask("read " + IdOf(own[i])) == "ok 2");
  }
  CHECK(node.Pool().quarantined_blocks() == 2);
  node.CheckCounts();

  writer.Kill();
  CHECK(node.BecomeFree(2));
  CHECK(absl::StartsWith(other.Ask("alloc 2"), "ok "));
  CHECK(other.Leave() == "ok");
  node.CheckAllIsBack();
}

TEST_CASE("A worker keeps the memory of a daemon that was killed, and it is not the next one's") {
  DaemonProcess daemon({.pools_json = OnePool(4)});
  Worker old(daemon.worker_socket());
  const std::string ref = OneRef(old.Ask("alloc 1"));
  REQUIRE(old.Ask("write 42") == "ok");
  daemon.process().Kill();
  CHECK(old.Ask("read " + IdOf(ref)) == "ok 42");

  daemon.Start();
  Worker fresh(daemon.worker_socket());
  REQUIRE(fresh.Ask("map") == "ok");
  for (int id = 0; id < 4; ++id) CHECK(fresh.Ask(absl::StrCat("read ", id)) == "ok 0");
  CHECK(absl::StartsWith(old.Ask("alloc 1"), "error NOT_FOUND SESSION_UNKNOWN"));
  REQUIRE(old.Ask("write 43") == "ok");
  CHECK(old.Ask("read " + IdOf(ref)) == "ok 43");
  CHECK(fresh.Ask("read " + IdOf(ref)) == "ok 0");

  // The same process opens the next daemon's memory, while it may have the old one's still.
  REQUIRE(old.Ask("open p again") == "ok");
  REQUIRE(old.Ask("map") == "ok");
  CHECK(old.Ask("read " + IdOf(ref)) == "ok 0");
  const std::string next = OneRef(fresh.Ask("alloc 1"));
  REQUIRE(fresh.Ask("write 44") == "ok");
  CHECK(old.Ask("read " + IdOf(next)) == "ok 44");
  CHECK(old.Leave() == "ok");
  CHECK(fresh.Leave() == "ok");
  CHECK(daemon.Stop() == 0);
}

}  // namespace
}  // namespace kvpool::test
