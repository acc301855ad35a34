#include <array>
#include <string>
#include <vector>

#include "server/rpc/list_calls.h"
#include "tests/support/catch.h"
#include "tests/unit/server_rpc/test_server.h"

namespace kvpool::test {
namespace {

using Stub = v1::InspectService::Stub;

v1::GetBlockResponse GetBlock(Connection& connection, uint32_t block) {
  v1::GetBlockRequest request;
  request.set_pool("main");
  request.set_block_id(block);
  v1::GetBlockResponse response;
  CHECK(CodeOf(Call(*connection.inspect, &Stub::GetBlock, request, response)) == "OK");
  return response;
}

v1::ListSessionsResponse ListSessions(Connection& connection, const std::string& pool) {
  v1::ListSessionsRequest request;
  request.set_pool(pool);
  v1::ListSessionsResponse response;
  CHECK(CodeOf(CallList(*connection.inspect, &Stub::ListSessions, request, response)) == "OK");
  return response;
}

grpc::Status GetSession(Connection& connection, const std::string& session,
                        v1::GetSessionResponse& response) {
  v1::GetSessionRequest request;
  request.set_session_id(session);
  return Call(*connection.inspect, &Stub::GetSession, request, response);
}

struct Listing {
  grpc::Status status;
  std::vector<int> chunks;
  std::vector<v1::BlockStatus> blocks;
};

Listing ListBlocks(Connection& connection, const std::string& pool, uint32_t first,
                   uint32_t count) {
  v1::ListBlocksRequest request;
  request.set_pool(pool);
  request.set_first(first);
  request.set_count(count);
  grpc::ClientContext context;
  Listing listing;
  const auto reader = connection.inspect->ListBlocks(&context, request);
  v1::ListBlocksResponse response;
  while (reader->Read(&response)) {
    listing.chunks.push_back(response.blocks_size());
    listing.blocks.insert(listing.blocks.end(), response.blocks().begin(), response.blocks().end());
  }
  listing.status = reader->Finish();
  return listing;
}

TEST_CASE("GetDaemon tells what the daemon is") {
  TestServer server;
  Connection inspector = server.Connect(v1::ROLE_INSPECTOR);
  server.draining() = true;
  v1::GetDaemonResponse response;
  REQUIRE(Call(*inspector.inspect, &Stub::GetDaemon, v1::GetDaemonRequest(), response).ok());
  CHECK(response.version() == "1.2.3");
  CHECK(response.daemon_epoch() == "epoch");
  CHECK(response.start_time().seconds() > 1'600'000'000);
  REQUIRE(response.devices_size() == 1);
  CHECK(response.devices(0).kind() == v1::DEVICE_KIND_HOST);
  CHECK(std::vector<std::string>(response.eviction_policies().begin(),
                                 response.eviction_policies().end()) ==
        std::vector<std::string>{"learned", "leaf_lru"});
  CHECK_FALSE(response.block_tracing());
  CHECK(response.draining());
  CHECK(response.reclaim_proof() == v1::RECLAIM_PROOF_PIDFD);
  REQUIRE(response.warnings_size() == 1);
  CHECK(response.warnings(0) == "a warning");
}

TEST_CASE("Pools are listed and found by name") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Alloc(worker, OpenSession(worker), 3);
  v1::ListPoolsResponse pools;
  REQUIRE(CallList(*worker.inspect, &Stub::ListPools, v1::ListPoolsRequest(), pools).ok());
  REQUIRE(pools.pools_size() == 1);
  v1::GetPoolRequest request;
  request.set_name("main");
  v1::GetPoolResponse pool;
  REQUIRE(Call(*worker.inspect, &Stub::GetPool, request, pool).ok());
  CHECK(pool.pool().SerializeAsString() == pools.pools(0).SerializeAsString());
  CHECK(pool.pool().layout().spec().name() == "main");
  CHECK(pool.pool().free_blocks() == 61);
  CHECK(pool.pool().held_blocks() == 3);
  CHECK(pool.pool().sessions() == 1);
  CHECK(pool.pool().devices_size() == 1);
  request.set_name("other");
  CHECK(CodeOf(Call(*worker.inspect, &Stub::GetPool, request)) == "NOT_FOUND");
}

TEST_CASE("PlanPool plans without allocating") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::PlanPoolRequest request;
  *request.mutable_spec() = MainPoolSpec();
  request.mutable_spec()->set_name("planned");
  request.mutable_spec()->set_memory_bytes(1'000'000);
  v1::PlanPoolResponse response;
  REQUIRE(Call(*worker.inspect, &Stub::PlanPool, request, response).ok());
  CHECK(response.layout().num_blocks() > 400);
  CHECK(response.layout().block_bytes() == 2048);

  request.mutable_spec()->set_num_blocks(2'000'000'000);
  CHECK(CodeOf(Call(*worker.inspect, &Stub::PlanPool, request)) == "OK");
  request.mutable_spec()->set_dtype("bf17");
  CHECK(CodeOf(Call(*worker.inspect, &Stub::PlanPool, request)) == "INVALID_ARGUMENT");
  v1::ListPoolsResponse pools;
  REQUIRE(CallList(*worker.inspect, &Stub::ListPools, v1::ListPoolsRequest(), pools).ok());
  CHECK(pools.pools_size() == 1);
}

TEST_CASE("A worker sees its tenant's sessions, an inspector sees all") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Connection other = server.Connect(v1::ROLE_WORKER, "tenant-b");
  Connection inspector = server.Connect(v1::ROLE_INSPECTOR);
  const std::string session = OpenSession(worker);
  const std::string hidden = OpenSession(other);

  const v1::ListSessionsResponse own = ListSessions(worker, "main");
  REQUIRE(own.sessions_size() == 1);
  CHECK(own.sessions(0).session_id() == session.substr(0, 8));
  CHECK(own.sessions(0).pid() == getpid());
  CHECK(own.sessions(0).state() == v1::SessionStatus::STATE_UNATTACHED);
  CHECK(own.sessions(0).client_name() == "test");
  CHECK(ListSessions(inspector, "").sessions_size() == 2);

  v1::GetSessionResponse response;
  CHECK(CodeOf(GetSession(worker, hidden, response)) == "NOT_FOUND SESSION_UNKNOWN");
  CHECK(CodeOf(GetSession(inspector, hidden, response)) == "OK");
  CHECK(response.session().tenant() == "tenant-b");
  v1::ListSessionsRequest elsewhere;
  elsewhere.set_pool("other");
  v1::ListSessionsResponse none;
  CHECK(CodeOf(CallList(*worker.inspect, &Stub::ListSessions, elsewhere, none)) == "NOT_FOUND");
}

TEST_CASE("GetSession takes an id's first characters, and lists the blocks held") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  Alloc(worker, session, 3);
  v1::GetSessionResponse response;
  for (const size_t size : {size_t{8}, size_t{9}, size_t{32}}) {
    REQUIRE(CodeOf(GetSession(worker, session.substr(0, size), response)) == "OK");
    CHECK(response.session().held_blocks() == 3);
    CHECK(response.session().references() == 3);
    REQUIRE(response.session().block_ids_size() == 3);
    CHECK(response.session().block_ids(2) == 2);
    CHECK_FALSE(response.session().truncated());
  }
}

TEST_CASE("GetBlock shows who holds a block, and its history where tracing is on") {
  TestServer server({.limits = {}, .trace = true, .pool_tenant = ""});
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Connection other = server.Connect(v1::ROLE_WORKER, "tenant-b");
  const std::string session = OpenSession(worker);
  Alloc(worker, session, 1);

  const v1::BlockStatus block = GetBlock(worker, 0).block();
  CHECK(block.state() == v1::BlockStatus::STATE_HELD);
  REQUIRE(block.holders_size() == 1);
  CHECK(block.holders(0).session_id() == session.substr(0, 8));
  REQUIRE(block.history_size() == 1);
  CHECK(block.history(0).operation() == "alloc");
  CHECK(block.history(0).caller().find(session.substr(0, 8)) != std::string::npos);
  CHECK(block.DebugString().find(session) == std::string::npos);

  const v1::BlockStatus hidden = GetBlock(other, 0).block();
  CHECK(hidden.state() == v1::BlockStatus::STATE_HELD);
  CHECK(hidden.tenant().empty());
  CHECK(hidden.holders_size() == 0);
  CHECK(hidden.history_size() == 0);
  CHECK(GetBlock(worker, 63).block().state() == v1::BlockStatus::STATE_FREE);

  v1::GetBlockRequest request;
  request.set_pool("main");
  request.set_block_id(64);
  CHECK(CodeOf(Call(*worker.inspect, &Stub::GetBlock, request)) == "INVALID_ARGUMENT");
  request.set_pool("other");
  CHECK(CodeOf(Call(*worker.inspect, &Stub::GetBlock, request)) == "NOT_FOUND");
}

TEST_CASE("ListBlocks lists a run, or all from the first") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Alloc(worker, OpenSession(worker), 2);
  const Listing all = ListBlocks(worker, "main", 0, 0);
  CHECK(CodeOf(all.status) == "OK");
  REQUIRE(all.blocks.size() == 64);
  CHECK(all.blocks[1].state() == v1::BlockStatus::STATE_HELD);
  CHECK(all.blocks[1].holders_size() == 0);
  CHECK(all.blocks[2].state() == v1::BlockStatus::STATE_FREE);
  const Listing some = ListBlocks(worker, "main", 60, 4);
  REQUIRE(some.blocks.size() == 4);
  CHECK(some.blocks[0].block_id() == 60);
  CHECK(ListBlocks(worker, "main", 64, 0).blocks.empty());
  CHECK(CodeOf(ListBlocks(worker, "main", 60, 5).status) == "INVALID_ARGUMENT");
  CHECK(CodeOf(ListBlocks(worker, "main", 65, 0).status) == "INVALID_ARGUMENT");
  CHECK(CodeOf(ListBlocks(worker, "main", 1, UINT32_MAX).status) == "INVALID_ARGUMENT");
  CHECK(CodeOf(ListBlocks(worker, "other", 0, 0).status) == "NOT_FOUND");
}

TEST_CASE("A long list of blocks comes in chunks") {
  TestServer server;
  Connection operating = server.Connect(v1::ROLE_OPERATOR);
  v1::CreatePoolRequest create;
  *create.mutable_spec() = MainPoolSpec();
  create.mutable_spec()->set_name("large");
  create.mutable_spec()->set_num_blocks(2 * server::kListBlocksChunk + 1);
  REQUIRE(Call(*operating.admin, &v1::AdminService::Stub::CreatePool, create).ok());
  const Listing listing = ListBlocks(operating, "large", 0, 0);
  CHECK(CodeOf(listing.status) == "OK");
  CHECK(listing.chunks == std::vector<int>{4096, 4096, 1});
  REQUIRE(listing.blocks.size() == 8193);
  for (uint32_t i = 0; i < 8193; ++i) REQUIRE(listing.blocks[i].block_id() == i);
}

TEST_CASE("A long list of sessions comes in messages that any client takes") {
  TestServer server;
  // One process may not have so many sessions.
  const std::array<Connection, 3> workers = {server.Connect(v1::ROLE_WORKER),
                                             server.Connect(v1::ROLE_WORKER),
                                             server.Connect(v1::ROLE_WORKER)};
  constexpr int kSessions = 5'000;
  for (int i = 0; i < kSessions; ++i) {
    v1::OpenSessionRequest request;
    request.set_pool("main");
    request.set_model_id(std::string(1'000, 'm'));
    const Connection& opener = workers[static_cast<size_t>(i) % workers.size()];
    REQUIRE(Call(*opener.blocks, &v1::BlockService::Stub::OpenSession, request).ok());
  }
  v1::ListSessionsRequest request;
  grpc::ClientContext context;
  const auto reader = workers[0].inspect->ListSessions(&context, request);
  v1::ListSessionsResponse part;
  int sessions = 0;
  int messages = 0;
  for (; reader->Read(&part); ++messages) {
    sessions += part.sessions_size();
    CHECK(part.ByteSizeLong() < (size_t{1} << 20));
  }
  CHECK(CodeOf(reader->Finish()) == "OK");
  CHECK(sessions == kSessions);
  // All in one message would be over the 4 MiB that a client takes.
  CHECK(messages > 4);
}

TEST_CASE("Checksums of as many blocks as a call takes come in messages that any client takes") {
  TestServer server;
  Connection operating = server.Connect(v1::ROLE_OPERATOR);
  Alloc(operating, OpenSession(operating), 1);
  v1::ChecksumBlocksRequest request;
  request.set_pool("main");
  for (int i = 0; i < 65'536; ++i) request.add_block_ids(0);
  grpc::ClientContext context;
  const auto reader = operating.inspect->ChecksumBlocks(&context, request);
  v1::ChecksumBlocksResponse part;
  uint32_t next = 0;
  while (reader->Read(&part)) {
    CHECK(part.ByteSizeLong() < (size_t{1} << 20));
    for (const v1::BlockChecksum& block : part.blocks()) REQUIRE(block.logical_index() == next++);
  }
  CHECK(CodeOf(reader->Finish()) == "OK");
  CHECK(next == 65'536);
}

TEST_CASE("Checksums tell equal bytes, and where bytes differ") {
  TestServer server;
  Connection operating = server.Connect(v1::ROLE_OPERATOR);
  const std::string session = OpenSession(operating);
  Alloc(operating, session, 3);
  v1::FillBlocksRequest fill;
  fill.set_session_id(session);
  fill.mutable_blocks()->add_block_ids(2);
  fill.set_fill(v1::FILL_POISON);
  REQUIRE(Call(*operating.blocks, &v1::BlockService::Stub::FillBlocks, fill).ok());

  v1::ChecksumBlocksRequest blocks;
  blocks.set_pool("main");
  blocks.mutable_block_ids()->Add(2);
  blocks.mutable_block_ids()->Add(0);
  blocks.mutable_block_ids()->Add(1);
  v1::ChecksumBlocksResponse sums;
  REQUIRE(CallList(*operating.inspect, &Stub::ChecksumBlocks, blocks, sums).ok());
  REQUIRE(sums.blocks_size() == 3);
  CHECK(sums.blocks(0).block_id() == 2);
  CHECK(sums.blocks(1).logical_index() == 1);
  CHECK(sums.blocks(1).k().crc32c() == sums.blocks(2).k().crc32c());
  CHECK(sums.blocks(0).k().crc32c() != sums.blocks(2).k().crc32c());
  CHECK(sums.blocks(0).v().nan_count() == 256);
  CHECK(sums.blocks(0).v().has_sums());

  v1::ChecksumLayersRequest layers;
  layers.set_pool("main");
  layers.mutable_block_ids()->Add(0);
  layers.mutable_block_ids()->Add(2);
  layers.set_boundary(1);
  layers.set_tag("run \"1\"\n");
  v1::ChecksumLayersResponse answer;
  REQUIRE(Call(*operating.inspect, &Stub::ChecksumLayers, layers, answer).ok());
  CHECK(answer.tag() == "run \"1\"\n");
  REQUIRE(answer.layers_size() == 2);
  CHECK(answer.layers(1).layer() == 1);
  CHECK(answer.layers(1).prefix_k().crc32c() == sums.blocks(1).k().crc32c());
  CHECK(answer.layers(1).suffix_k().nan_count() == 256);
}

TEST_CASE("Checksums of what is not there are refused") {
  TestServer server;
  Connection operating = server.Connect(v1::ROLE_OPERATOR);
  Alloc(operating, OpenSession(operating), 1);
  v1::ChecksumLayersRequest request;
  request.set_pool("main");
  request.mutable_block_ids()->Add(0);
  request.set_tag(std::string(256, 't'));
  CHECK(CodeOf(Call(*operating.inspect, &Stub::ChecksumLayers, request)) == "OK");
  request.set_tag(std::string(257, 't'));
  CHECK(CodeOf(Call(*operating.inspect, &Stub::ChecksumLayers, request)) == "INVALID_ARGUMENT");
  request.clear_tag();
  request.set_shard(1);
  CHECK(CodeOf(Call(*operating.inspect, &Stub::ChecksumLayers, request)) == "INVALID_ARGUMENT");
  request.set_shard(0);
  request.mutable_generations()->Add(99);
  CHECK(CodeOf(Call(*operating.inspect, &Stub::ChecksumLayers, request)) == "ABORTED STALE_BLOCK");
  request.mutable_generations()->Add(99);
  CHECK(CodeOf(Call(*operating.inspect, &Stub::ChecksumLayers, request)) == "INVALID_ARGUMENT");
  request.clear_generations();
  request.set_block_ids(0, 1);
  CHECK(CodeOf(Call(*operating.inspect, &Stub::ChecksumLayers, request)) ==
        "FAILED_PRECONDITION NOT_LIVE");
  request.set_pool("other");
  CHECK(CodeOf(Call(*operating.inspect, &Stub::ChecksumLayers, request)) == "NOT_FOUND");

  v1::ChecksumBlocksRequest blocks;
  blocks.set_pool("main");
  blocks.mutable_block_ids()->Add(0);
  blocks.set_layer(2);
  v1::ChecksumBlocksResponse sums;
  CHECK(CodeOf(CallList(*operating.inspect, &Stub::ChecksumBlocks, blocks, sums)) ==
        "INVALID_ARGUMENT");
}

}  // namespace
}  // namespace kvpool::test
