// Counting references: double frees, strangers, races.
#include <future>
#include <numeric>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/error.h"
#include "core/status_macros.h"
#include "tests/integration/support/log_lines.h"
#include "tests/integration/support/node.h"
#include "tests/integration/support/prefix_user.h"
#include "tests/integration/support/region.h"
#include "tests/integration/support/worker.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

TEST_CASE("A block that is let go twice is free once") {
  Node node(/*num_blocks=*/8);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  const v1::Blocks block = *session->Alloc(1);

  const auto first = session->DecRef(block);
  REQUIRE(first.ok());
  CHECK(first->freed() == 1);
  CHECK(first->available() == 8);
  CHECK(Said(session->DecRef(block)) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(Said(session->DecRef(Id(block.block_ids(0)))) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(node.FreeBlocks() == 8);
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A list that lets go more than is held changes nothing") {
  Node node(/*num_blocks=*/8);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  const v1::Blocks blocks = *session->Alloc(2);
  v1::Blocks list = blocks;
  list.add_block_ids(blocks.block_ids(0));
  list.add_generations(blocks.generations(0));

  const auto refused = session->DecRef(list);
  CHECK(Said(refused) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(GetErrorDetail(refused.status()).index == 2);
  CHECK(GetErrorDetail(refused.status()).block_id == blocks.block_ids(0));
  CHECK(node.Pool().held_blocks() == 2);
  CHECK(node.eyes().GetBlock("p", blocks.block_ids(0))->ref_count() == 1);
  CHECK(node.eyes().GetBlock("p", blocks.block_ids(1))->ref_count() == 1);
  node.CheckCounts();

  // What is free by the books can be had.
  CHECK(session->Alloc(6).ok());
  CHECK(Said(session->Alloc(1)) == "RESOURCE_EXHAUSTED POOL_FULL");
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A list may let go of a block as often as it is held") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  const v1::Blocks block = *session->Alloc(1);
  REQUIRE(session->IncRef(Joined(block, block)).ok());

  const auto answer = session->DecRef(Joined(Joined(block, block), block));
  REQUIRE(answer.ok());
  CHECK(answer->freed() == 1);
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A session can do nothing with a block that another one holds") {
  Node node(/*num_blocks=*/8);
  const auto client = node.Connect();
  const auto owner = *RawSession::Open(*client, {});
  PrefixUser strange(*client);
  RawSession* const stranger = &strange.session();
  const v1::Blocks block = *owner->Alloc(1);
  const uint32_t id = block.block_ids(0);
  REQUIRE(owner->Fill(block, v1::FILL_POISON).ok());

  CHECK(Said(stranger->DecRef(block)) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(Said(stranger->DecRef(Id(id))) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(Said(stranger->IncRef(Id(id))) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(Said(stranger->Read(block)) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(Said(stranger->Fill(block, v1::FILL_ZERO)) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(Said(stranger->Write(id, 0, v1::SIDE_K, 0, "x")) == "FAILED_PRECONDITION NOT_HELD");
  const v1::Blocks own = *stranger->Alloc(1);
  CHECK(Said(stranger->Copy(block, own)) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(Said(stranger->Copy(own, block)) == "FAILED_PRECONDITION NOT_HELD");
  // Field cases 5 and 72.
  CHECK(Said(strange.TryPublish(BlocksOf({1}), block)) == "FAILED_PRECONDITION NOT_HELD");
  const auto evicted = strange.TryEvict(0, block);
  CHECK(Said(evicted) == "OK");
  CHECK(evicted->block_ids().empty());

  CHECK(node.eyes().GetBlock("p", id)->ref_count() == 1);
  const auto pieces = owner->Read(block);
  REQUIRE(pieces.ok());
  for (const v1::BlockPiece& piece : *pieces) {
    CHECK(piece.data() == std::string(piece.data().size(), '\xFF'));
  }
  CHECK(owner->Close().ok());
  CHECK(stranger->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("An id beyond the pool is refused whoever names it") {
  Node node(/*num_blocks=*/8);
  const auto client = node.Connect();
  PrefixUser user(*client);
  RawSession* const session = &user.session();
  REQUIRE(session->Alloc(8).ok());

  for (const uint32_t id : {8U, 0x7FFFFFFFU, 0x80000000U, 0xFFFFFFFFU}) {
    CAPTURE(id);
    v1::Blocks with_generation = Id(id);
    with_generation.add_generations(1);
    CHECK(Said(session->DecRef(Id(id))) == "INVALID_ARGUMENT");
    CHECK(Said(session->IncRef(with_generation)) == "INVALID_ARGUMENT");
    CHECK(Said(session->Read(Id(id))) == "INVALID_ARGUMENT");
    CHECK(Said(session->Fill(Id(id), v1::FILL_ZERO)) == "INVALID_ARGUMENT");
    CHECK(Said(session->Copy(Id(0), Id(id))) == "INVALID_ARGUMENT");
    CHECK(Said(session->Write(id, 0, v1::SIDE_K, 0, "x")) == "INVALID_ARGUMENT");
    CHECK(Said(user.TryPublish(BlocksOf({1}), Id(id))) == "INVALID_ARGUMENT");
    CHECK(Said(user.TryEvict(0, Id(id))) == "INVALID_ARGUMENT");
    CHECK(Said(node.eyes().GetBlock("p", id)) == "INVALID_ARGUMENT");
  }
  CHECK(node.Pool().held_blocks() == 8);
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("Releases beyond one's own leave the other holder's block, and are each logged") {
  const bool is_traced = GENERATE(false, true);
  CAPTURE(is_traced);
  DaemonProcess::Options options{.pools_json = OnePool(4)};
  if (is_traced) options.environment.emplace_back("KVPOOL_KV_TRACE=1");
  Node node(std::move(options));
  const auto client = node.Connect();
  const auto first = *RawSession::Open(*client, {});
  const auto second = *RawSession::Open(*client, {});
  const v1::Blocks own = *first->Alloc(1);
  const v1::Blocks block = *first->Alloc(1);
  const uint32_t id = block.block_ids(0);
  REQUIRE(second->IncRef(block).ok());

  CHECK(Said(first->DecRef(block)) == "OK");
  CHECK(Said(first->DecRef(Joined(own, block))) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(Said(first->DecRef(Joined(own, block))) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(node.eyes().GetBlock("p", id)->ref_count() == 1);
  CHECK(node.Pool().held_blocks() == 2);
  node.CheckCounts();
  node.CheckDrainBeside();
  CHECK(Said(first->DecRef(own)) == "OK");
  node.CheckDrainBeside();

  const std::string where = absl::StrCat(" reason=NOT_HELD index=1 block=", id, " trace=\"");
  const std::string trace = is_traced ? "alloc->1 " : "set KVPOOL_KV_TRACE=1 ";
  CHECK(Eventually([&] {
    return CountLines(node.daemon().Log(), {" event=dec_ref_refused ", where, trace}) == 2;
  }));
  CHECK(CountLines(node.daemon().Log(), {"event=dec_ref_refused"}) == 2);
  CHECK(Said(second->DecRef(block)) == "OK");
  CHECK(first->Close().ok());
  CHECK(second->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A worker that lets go what it does not hold, all the time, does not fill the log") {
  Node node(/*num_blocks=*/8);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  constexpr size_t kCalls = 3'000;
  for (size_t i = 0; i < kCalls; ++i) {
    REQUIRE(Said(session->DecRef(Id(3))) == "FAILED_PRECONDITION NOT_HELD");
  }
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
  const size_t lines = CountLines(node.daemon().Log(), {" event=dec_ref_refused "});
  CHECK(lines > 0);
  CHECK(lines < kCalls / 2);
}

TEST_CASE("Block 0 is a block like any other") {
  Node node(/*num_blocks=*/3);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});

  CHECK(Said(session->DecRef(Id(0))) == "FAILED_PRECONDITION NOT_HELD");
  const v1::Blocks all = *session->Alloc(3);
  CHECK(all.block_ids(0) == 0);
  CHECK(all.block_ids(1) == 1);
  CHECK(all.block_ids(2) == 2);
  CHECK(Said(session->Write(0, 0, v1::SIDE_K, 0, "x")) == "OK");
  CHECK(Said(session->DecRef(Id(0))) == "OK");
  CHECK(session->Alloc(1)->block_ids(0) == 0);
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

// What `said`, the answer to letting go of all of 100 blocks, may be beside the session's end:
// whichever comes first, and one clear thing. The log has nothing of it.
void CheckLetGo(Node& node, const absl::StatusOr<v1::DecRefResponse>& answer, size_t warnings) {
  const std::string said = Said(answer);
  CHECK((said == "OK" || said == "NOT_FOUND SESSION_UNKNOWN"));
  if (answer.ok()) CHECK(answer->freed() == 100);
  REQUIRE(node.BecomeFree(100));
  node.CheckCounts();
  CHECK(CountWarnings(node.daemon().Log()) == warnings);
}

TEST_CASE("A session that ends while its blocks are let go frees each block once") {
  constexpr int kRounds = UnlessSanitized(60, 20);
  Node node(/*num_blocks=*/100);
  const size_t warnings = CountWarnings(node.daemon().Log());
  const auto client = node.Connect();
  const auto other = node.Connect();
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const auto session = *RawSession::Open(*client, {});
    const bool by_stream = round % 2 == 0;
    if (by_stream) REQUIRE(session->Attach().ok());
    const v1::Blocks blocks = *session->Alloc(100);

    auto let_go = std::async(std::launch::async, [&] {
      v1::DecRefRequest request;
      request.set_session_id(session->id());
      *request.mutable_blocks() = blocks;
      return other->DecRef(request);
    });
    if (by_stream) {
      session->Detach();
    } else {
      CHECK(session->Close().ok());
    }
    const absl::StatusOr<v1::DecRefResponse> answer = let_go.get();
    // A broken stream leaves this process's claims, which it ends here.
    session->Close().IgnoreError();
    CheckLetGo(node, answer, warnings);
  }
  node.CheckAllIsBack();
}

TEST_CASE("A worker killed while its blocks are let go frees each block once") {
  constexpr int kRounds = UnlessSanitized(10, 4);
  Node node(/*num_blocks=*/100);
  const size_t warnings = CountWarnings(node.daemon().Log());
  const auto other = node.Connect();
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    Worker worker(node.daemon().worker_socket());
    v1::DecRefRequest request;
    request.set_session_id(worker.Ask("id").substr(3));
    REQUIRE(worker.Ask("alloc-many 100") == "ok");
    for (uint32_t id = 0; id < 100; ++id) request.mutable_blocks()->add_block_ids(id);

    auto let_go = std::async(std::launch::async, [&] { return other->DecRef(request); });
    worker.Kill();  // Its connections end with it.
    CheckLetGo(node, let_go.get(), warnings);
  }
  node.CheckAllIsBack();
}

// Publishes the block under a prefix that many have at once, finds it, and lets go of what it
// found.
absl::Status PublishAndFind(RawClient& client, const std::string& session,
                            const v1::Blocks& block) {
  v1::PublishRequest publish;
  publish.set_session_id(session);
  *publish.mutable_prefix() = BlocksOf({1});
  *publish.mutable_blocks() = block;
  KVPOOL_RETURN_IF_ERROR(client.Publish(publish).status());
  v1::LookupRequest lookup;
  lookup.set_session_id(session);
  *lookup.mutable_prefix() = BlocksOf({1});
  lookup.set_acquire(true);
  KVPOOL_ASSIGN_OR_RETURN(const v1::LookupResponse found, client.Lookup(lookup));
  v1::DecRefRequest dec_ref;
  dec_ref.set_session_id(session);
  *dec_ref.mutable_blocks() = found.blocks();
  return client.DecRef(dec_ref).status();
}

// So many sessions, one after the other, each with all that a session has.
absl::Status OpenAndClose(RawClient& client, const std::string& socket, int count) {
  v1::OpenSessionRequest request;
  request.set_client_name("w0");
  request.set_model_id("llama");
  for (int i = 0; i < count; ++i) {
    KVPOOL_ASSIGN_OR_RETURN(const auto session, RawSession::Open(client, request));
    KVPOOL_RETURN_IF_ERROR(session->Attach());
    const uint64_t region_id = session->opened().regions(0).region_id();
    KVPOOL_RETURN_IF_ERROR(AskForRegion(socket, session->id(), region_id));
    KVPOOL_ASSIGN_OR_RETURN(const v1::Blocks blocks, session->Alloc(2));
    KVPOOL_RETURN_IF_ERROR(PublishAndFind(client, session->id(), First(blocks, 1)));
    KVPOOL_RETURN_IF_ERROR(session->DecRef(First(blocks, 1)).status());
    KVPOOL_RETURN_IF_ERROR(session->Close());
  }
  return absl::OkStatus();
}

TEST_CASE("Ten thousand sessions under one name leave nothing behind", "[host]") {
  constexpr int kSessions = UnlessSanitized(10'000, 500);
  constexpr int kThreads = 4;
  // Each holds two, and the one that all find.
  Node node(/*num_blocks=*/3 * kThreads);
  uint64_t resident_before = 0;
  for (int half = 0; half < 2; ++half) {
    std::vector<std::future<absl::Status>> results;
    for (int i = 0; i < kThreads; ++i) {
      results.push_back(std::async(std::launch::async, [&node, client = node.Connect()] {
        return OpenAndClose(*client, node.daemon().worker_socket(), kSessions / 2 / kThreads);
      }));
    }
    for (auto& result : results) REQUIRE(Said(result.get()) == "OK");
    // By then what grows once has grown.
    if (half == 0) resident_before = node.daemon().ResidentBytes();
  }
  // A session that stayed would be some hundred bytes at least, with its id and name in three
  // tables: the second half of them, half a megabyte.
  if (!kIsSanitized) {
    CHECK(node.daemon().ResidentBytes() < resident_before + 512 * 1024);
  }
  CHECK(Said(node.eyes().ResetPrefixes("p")) == "OK");
  node.CheckAllIsBack();
}

TEST_CASE("A pool that is filled and emptied again and again grows no more after the first times") {
  constexpr uint32_t kCycles = 100;
  constexpr uint32_t kBlocks = 256;  // Of 4 KiB.
  Node node(kBlocks);
  const auto client = node.Connect();
  uint64_t resident_before = 0;
  for (uint32_t cycle = 1; cycle <= kCycles; ++cycle) {
    CAPTURE(cycle);
    PrefixUser user(*client);
    RawSession* const session = &user.session();
    const v1::Blocks blocks = Value(session->Alloc(kBlocks));
    REQUIRE(Said(session->Fill(blocks, v1::FILL_POISON)) == "OK");
    // Each time other prefixes.
    std::vector<uint32_t> numbers(kBlocks);
    std::iota(numbers.begin(), numbers.end(), cycle * kBlocks);
    REQUIRE(Said(user.TryPublish(BlocksOf(numbers), blocks)) == "OK");
    REQUIRE(Said(session->DecRef(blocks)) == "OK");
    REQUIRE(node.Pool().cached_blocks() == kBlocks);
    REQUIRE(Value(node.eyes().ResetPrefixes("p")) == kBlocks);
    REQUIRE(Said(session->Alloc(kBlocks)) == "OK");
    REQUIRE(Said(session->Close()) == "OK");
    // By then the log of changes to prefixes, 4,096 of them, is full.
    if (cycle == 40) resident_before = node.daemon().ResidentBytes();
  }
  // A fill whose bytes stayed would be a MiB a cycle, a list of its blocks 4 KiB.
  if (!kIsSanitized) CHECK(node.daemon().ResidentBytes() < resident_before + 384 * 1024);
  node.CheckAllIsBack();
}

}  // namespace
}  // namespace kvpool::test
