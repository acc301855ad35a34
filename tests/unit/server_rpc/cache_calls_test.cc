#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"

#include "tests/support/catch.h"
#include "tests/support/eventually.h"
#include "tests/unit/server_rpc/test_server.h"

namespace kvpool::test {
namespace {

using Stub = v1::BlockService::Stub;

constexpr uint32_t kBlockSize = 16;  // Of the pool "main".

// Tokens of `blocks` blocks, which differ from those of another `seed` in every block.
v1::Prefix TokensOf(uint32_t blocks, uint32_t seed = 0) {
  v1::Prefix prefix;
  for (uint32_t i = 0; i < blocks * kBlockSize; ++i) prefix.add_tokens(seed * 100'000 + i);
  return prefix;
}

grpc::Status TryPublish(Connection& connection, const std::string& session,
                        const v1::Prefix& prefix, const v1::Blocks& blocks,
                        v1::PublishResponse& response) {
  v1::PublishRequest request;
  request.set_session_id(session);
  *request.mutable_prefix() = prefix;
  *request.mutable_blocks() = blocks;
  return Call(*connection.blocks, &Stub::Publish, request, response);
}

v1::Blocks PublishNew(Connection& connection, const std::string& session, const v1::Prefix& prefix,
                      uint32_t count) {
  const v1::Blocks blocks = Alloc(connection, session, count);
  v1::PublishResponse response;
  const grpc::Status status = TryPublish(connection, session, prefix, blocks, response);
  REQUIRE(status.error_message().empty());
  REQUIRE(response.published() == count);
  return blocks;
}

grpc::Status TryLookup(Connection& connection, const std::string& session, const v1::Prefix& prefix,
                       bool acquire, v1::LookupResponse& response) {
  v1::LookupRequest request;
  request.set_session_id(session);
  *request.mutable_prefix() = prefix;
  request.set_acquire(acquire);
  return Call(*connection.blocks, &Stub::Lookup, request, response);
}

v1::LookupResponse Lookup(Connection& connection, const std::string& session,
                          const v1::Prefix& prefix, bool acquire = false) {
  v1::LookupResponse response;
  const grpc::Status status = TryLookup(connection, session, prefix, acquire, response);
  REQUIRE(status.error_message().empty());
  return response;
}

std::vector<uint32_t> IdsOf(const v1::Blocks& blocks) {
  return {blocks.block_ids().begin(), blocks.block_ids().end()};
}

TEST_CASE("What one worker publishes another finds by its tokens, and holds") {
  TestServer server;
  Connection a = server.Connect(v1::ROLE_WORKER);
  Connection b = server.Connect(v1::ROLE_WORKER);
  const v1::Blocks published = PublishNew(a, OpenWithModel(a), TokensOf(3), 3);
  const std::string session = OpenWithModel(b);
  v1::Prefix longer = TokensOf(3);
  for (uint32_t i = 0; i < kBlockSize + 1; ++i) longer.add_tokens(7);
  const v1::LookupResponse found = Lookup(b, session, longer, /*acquire=*/true);
  CHECK(IdsOf(found.blocks()) == IdsOf(published));
  CHECK(found.matched_tokens() == 48);
  CHECK(found.last_key().size() == 32);
  CHECK(server.pool().GetBlock(BlockId{published.block_ids(0)}).ref_count == 3);
  // A partial block is never shared.
  v1::Prefix partial = TokensOf(3);
  partial.mutable_tokens()->Truncate(2 * kBlockSize + 15);
  CHECK(Lookup(b, session, partial).matched_tokens() == 32);
}

TEST_CASE("Another model, tenant, adapter, salt, image or kind of prefix finds nothing") {
  TestServer server;
  Connection a = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenWithModel(a);
  PublishNew(a, session, TokensOf(2), 2);
  CHECK(Lookup(a, session, TokensOf(2)).matched_tokens() == 32);
  CHECK(Lookup(a, OpenWithModel(a, "qwen"), TokensOf(2)).matched_tokens() == 0);
  Connection other = server.Connect(v1::ROLE_WORKER, "tenant-b");
  CHECK(Lookup(other, OpenWithModel(other), TokensOf(2)).matched_tokens() == 0);
  v1::Prefix prefix = TokensOf(2);
  prefix.mutable_space()->set_adapter("lora");
  CHECK(Lookup(a, session, prefix).matched_tokens() == 0);
  prefix = TokensOf(2);
  prefix.mutable_space()->set_salt("salt");
  CHECK(Lookup(a, session, prefix).matched_tokens() == 0);
  // The image is in the second block: the first is shared.
  prefix = TokensOf(2);
  v1::Prefix::Extra& extra = *prefix.add_extras();
  extra.set_first_token(20);
  extra.set_token_count(4);
  extra.set_hash("cat");
  CHECK(Lookup(a, session, prefix).matched_tokens() == 16);
}

TEST_CASE("Blocks are published and found by the caller's own hashes, a block at a time") {
  TestServer server;
  Connection a = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenWithModel(a);
  v1::Prefix first;
  first.add_block_hashes(std::string(16, 'x'));
  v1::PublishResponse response;
  REQUIRE(TryPublish(a, session, first, Alloc(a, session, 1), response).ok());
  v1::Prefix second;
  second.add_block_hashes(std::string(32, 'y'));
  second.set_parent_key(response.last_key());
  REQUIRE(TryPublish(a, session, second, Alloc(a, session, 1), response).ok());
  v1::Prefix both = first;
  both.add_block_hashes(std::string(32, 'y'));
  const v1::LookupResponse found = Lookup(a, session, both);
  CHECK(found.blocks().block_ids_size() == 2);
  CHECK(found.last_key() == response.last_key());
}

TEST_CASE("What is no prefix is refused with the field and the value named") {
  TestServer server;
  Connection a = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenWithModel(a);
  const auto refused = [&](const v1::Prefix& prefix, const std::string& what) {
    v1::LookupResponse response;
    const grpc::Status status = TryLookup(a, session, prefix, /*acquire=*/false, response);
    CHECK(CodeOf(status) == "INVALID_ARGUMENT");
    CAPTURE(status.error_message());
    CHECK(status.error_message().find(what) != std::string::npos);
  };
  v1::Prefix prefix = TokensOf(1);
  prefix.add_block_hashes(std::string(16, 'x'));
  refused(prefix, "block_hashes");
  prefix = {};
  prefix.add_block_hashes("short");
  refused(prefix, "block_hashes");
  prefix = TokensOf(1);
  prefix.set_parent_key("short");
  refused(prefix, "parent_key");
  prefix = TokensOf(1);
  prefix.mutable_space()->set_salt(std::string(1025, 's'));
  refused(prefix, "salt");
  prefix = {};
  prefix.mutable_tokens()->Resize((1 << 20) + 1, 0);
  refused(prefix, "1048577");
  v1::LookupResponse response;
  const grpc::Status status =
      TryLookup(a, OpenSession(a), TokensOf(1), /*acquire=*/false, response);
  CHECK(CodeOf(status) == "INVALID_ARGUMENT");
  CHECK(status.error_message().find("model_id") != std::string::npos);
}

TEST_CASE("A prefix of a million tokens is looked up") {
  TestServer server;
  Connection a = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenWithModel(a);
  PublishNew(a, session, TokensOf(2), 2);
  CHECK(Lookup(a, session, TokensOf(65'536)).matched_tokens() == 32);
}

TEST_CASE("Publish answers with the duplicates, and names the entry that is wrong") {
  TestServer server;
  Connection a = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenWithModel(a);
  const v1::Blocks first = PublishNew(a, session, TokensOf(1), 1);
  v1::PublishResponse response;
  const v1::Blocks second = Alloc(a, session, 2);
  REQUIRE(TryPublish(a, session, TokensOf(2), second, response).ok());
  CHECK(response.published() == 1);
  REQUIRE(response.duplicates_size() == 1);
  CHECK(response.duplicates(0).index() == 0);
  CHECK(response.duplicates(0).block_id() == first.block_ids(0));
  CHECK(response.duplicates(0).generation() == first.generations(0));
  const grpc::Status status = TryPublish(a, session, TokensOf(1, 9), first, response);
  CHECK(CodeOf(status) == "FAILED_PRECONDITION SEALED");
  CHECK(DetailOf(status).block_id() == first.block_ids(0));
}

TEST_CASE("Publish of tokens that fill other blocks than are named says how many they need") {
  TestServer server;
  Connection a = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenWithModel(a);
  const v1::Blocks blocks = Alloc(a, session, 1);
  v1::PublishResponse response;
  v1::Prefix prefix = TokensOf(1);
  prefix.mutable_tokens()->RemoveLast();
  grpc::Status status = TryPublish(a, session, prefix, blocks, response);
  CHECK(CodeOf(status) == "INVALID_ARGUMENT");
  CHECK(status.error_message() ==
        "the prefix has 15 tokens, which fill 0 blocks of 16; skip 0 and 1 blocks need 16 tokens");
  status = TryPublish(a, session, TokensOf(2), blocks, response);
  CHECK(status.error_message() ==
        "the prefix has 32 tokens, which fill 2 blocks of 16; skip 0 and 1 blocks need 16 tokens");
  // Of hashes there is one a block, and other mistakes keep their own message.
  v1::Prefix hashes;
  hashes.add_block_hashes(std::string(32, 'a'));
  hashes.add_block_hashes(std::string(32, 'b'));
  CHECK(TryPublish(a, session, hashes, blocks, response).error_message() ==
        "the prefix has 2 full blocks, but skip 0 and 1 blocks are 1");
  v1::Blocks twice = blocks;
  twice.MergeFrom(blocks);
  CHECK(absl::StrContains(TryPublish(a, session, TokensOf(2), twice, response).error_message(),
                          "is named twice"));
}

TEST_CASE("Acquire holds what is findable and allocates the rest") {
  TestServer server;
  Connection a = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenWithModel(a);
  const v1::Blocks published = PublishNew(a, session, TokensOf(2), 2);
  v1::AcquireRequest request;
  request.set_session_id(OpenWithModel(a));
  *request.mutable_prefix() = TokensOf(4);
  request.set_total_blocks(5);
  v1::AcquireResponse response;
  REQUIRE(Call(*a.blocks, &Stub::Acquire, request, response).ok());
  CHECK(response.matched_blocks() == 2);
  CHECK(response.blocks().block_ids_size() == 5);
  CHECK(response.blocks().generations_size() == 5);
  CHECK(response.blocks().block_ids(0) == published.block_ids(0));
  CHECK(response.last_key().size() == 32);
  CHECK(response.available() == 59);
  request.set_total_blocks(65);
  CHECK(CodeOf(Call(*a.blocks, &Stub::Acquire, request)) == "INVALID_ARGUMENT");
}

TEST_CASE("An Acquire that waits is served when there is room") {
  TestServer server;
  Connection a = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenWithModel(a);
  const v1::Blocks all = Alloc(a, session, 64);
  v1::AcquireRequest request;
  request.set_session_id(OpenWithModel(a));
  *request.mutable_prefix() = TokensOf(1);
  request.set_total_blocks(2);
  request.mutable_wait()->set_seconds(30);
  grpc::ClientContext context;
  v1::AcquireResponse response;
  std::promise<grpc::Status> done;
  a.blocks->async()->Acquire(&context, &request, &response,
                             [&done](grpc::Status status) { done.set_value(status); });
  REQUIRE(Eventually([&] { return server.pool().counts().waiting_calls == 1; }));
  v1::DecRefRequest drop;
  drop.set_session_id(session);
  *drop.mutable_blocks() = all;
  REQUIRE(Call(*a.blocks, &Stub::DecRef, drop).ok());
  CHECK(done.get_future().get().ok());
  CHECK(response.blocks().block_ids_size() == 2);
}

TEST_CASE("Evict lets go of cached blocks, by list and by count") {
  TestServer server;
  Connection a = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenWithModel(a);
  const v1::Blocks blocks = PublishNew(a, session, TokensOf(3), 3);
  v1::EvictRequest by_list;
  by_list.set_session_id(session);
  by_list.mutable_blocks()->add_block_ids(blocks.block_ids(0));
  CHECK(CodeOf(Call(*a.blocks, &Stub::Evict, by_list)) == "FAILED_PRECONDITION NOT_LEAF");
  by_list.mutable_blocks()->set_block_ids(0, blocks.block_ids(2));
  v1::EvictResponse response;
  REQUIRE(Call(*a.blocks, &Stub::Evict, by_list, response).ok());
  CHECK(response.block_ids_size() == 1);
  CHECK(response.freed() == 0);
  v1::DecRefRequest drop;
  drop.set_session_id(session);
  *drop.mutable_blocks() = blocks;
  v1::DecRefResponse dropped;
  REQUIRE(Call(*a.blocks, &Stub::DecRef, drop, dropped).ok());
  CHECK(dropped.cached() == 2);
  CHECK(dropped.freed() == 1);
  v1::EvictRequest by_count;
  by_count.set_session_id(session);
  by_count.set_count(9);
  response.Clear();
  REQUIRE(Call(*a.blocks, &Stub::Evict, by_count, response).ok());
  CHECK(response.freed() == 2);
  CHECK(server.pool().counts().free_blocks == 64);
}

TEST_CASE("An operator resets a tenant's prefixes, or all, and nobody else does") {
  TestServer server;
  Connection a = server.Connect(v1::ROLE_WORKER);
  Connection operators = server.Connect(v1::ROLE_OPERATOR);
  const std::string session = OpenWithModel(a);
  PublishNew(a, session, TokensOf(2), 2);
  v1::ResetPrefixesRequest request;
  request.set_pool("main");
  request.set_tenant("tenant-b");
  v1::ResetPrefixesResponse response;
  REQUIRE(Call(*operators.admin, &v1::AdminService::Stub::ResetPrefixes, request, response).ok());
  CHECK(response.forgotten() == 0);
  CHECK(Lookup(a, session, TokensOf(2)).matched_tokens() == 32);
  request.clear_tenant();
  REQUIRE(Call(*operators.admin, &v1::AdminService::Stub::ResetPrefixes, request, response).ok());
  CHECK(response.forgotten() == 2);
  CHECK(Lookup(a, session, TokensOf(2)).matched_tokens() == 0);
  request.set_pool("none");
  CHECK(CodeOf(Call(*operators.admin, &v1::AdminService::Stub::ResetPrefixes, request)) ==
        "NOT_FOUND");
}

TEST_CASE("Sessions are told of a reset by their streams") {
  TestServer server;
  Connection a = server.Connect(v1::ROLE_WORKER);
  Connection operators = server.Connect(v1::ROLE_OPERATOR);
  grpc::ClientContext context;
  v1::KeepAliveRequest attach;
  attach.set_session_id(OpenWithModel(a));
  const auto stream = a.blocks->KeepAlive(&context, attach);
  v1::KeepAliveResponse notice;
  REQUIRE(stream->Read(&notice));
  v1::ResetPrefixesRequest request;
  request.set_pool("main");
  REQUIRE(Call(*operators.admin, &v1::AdminService::Stub::ResetPrefixes, request).ok());
  REQUIRE(stream->Read(&notice));
  CHECK(notice.notice().kind() == v1::Notice::KIND_PREFIXES_RESET);
  context.TryCancel();
}

}  // namespace
}  // namespace kvpool::test
