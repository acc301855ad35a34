// The client library's calls of the prefix cache, against the real daemon.
#include "client/client.h"

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/support/forwarding_transport.h"
#include "tests/integration/support/node.h"
#include "tests/support/catch.h"

namespace kvpool::test {
namespace {

using client::AcquiredBlocks;
using client::BlockLease;
using client::CallContext;
using client::Prefix;

// gRPC to a real daemon, that can lose the answer to the next call of the prefix cache.
class LosingTransport final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;

  void LoseNext() { is_losing_ = true; }

  absl::Status Publish(const v1::PublishRequest& request, const CallContext& call,
                       v1::PublishResponse& response) override {
    return Lose(ForwardingTransport::Publish(request, call, response));
  }
  absl::Status Lookup(const v1::LookupRequest& request, const CallContext& call,
                      v1::LookupResponse& response) override {
    return Lose(ForwardingTransport::Lookup(request, call, response));
  }
  absl::Status Acquire(const v1::AcquireRequest& request, const CallContext& call,
                       v1::AcquireResponse& response) override {
    return Lose(ForwardingTransport::Acquire(request, call, response));
  }

 private:
  absl::Status Lose(const absl::Status& status) {
    if (!std::exchange(is_losing_, false)) return status;
    REQUIRE(status.ok());
    return absl::UnavailableError("the answer was lost");
  }

  bool is_losing_ = false;
};

// A client of the node with a session that has a model.
struct Engine {
  explicit Engine(Node& node)
      : transport(std::make_shared<LosingTransport>(node.daemon().worker_socket())),
        client(Value(client::Client::Create({.transport = transport}))),
        session(Value(client.OpenSession({.pool = "p", .model_id = "llama"}))) {}

  const std::shared_ptr<LosingTransport> transport;
  client::Client client;
  const std::unique_ptr<client::Session> session;
};

std::vector<uint32_t> Tokens(uint32_t blocks) {
  std::vector<uint32_t> tokens(blocks * 16);
  std::iota(tokens.begin(), tokens.end(), 7U);
  return tokens;
}

std::vector<BlockRef> RefsOf(std::span<const BlockLease> leases) {
  std::vector<BlockRef> refs;
  for (const BlockLease& lease : leases) refs.push_back(lease.ref());
  return refs;
}

void Leave(Node& node) {
  CHECK(Said(node.eyes().ResetPrefixes("p")) == "OK");
  node.CheckAllIsBack();
}

TEST_CASE("An engine publishes what it computed, and another one acquires it and the rest") {
  Node node(/*num_blocks=*/8);
  {
    Engine first(node);
    Engine second(node);
    const std::vector<uint32_t> tokens = Tokens(4);
    const Prefix prompt{.tokens = std::span(tokens).first(3 * 16)};
    const std::vector<BlockLease> written = Value(first.session->Alloc(3));
    const client::Published published = Value(first.session->Publish(prompt, RefsOf(written)));
    CHECK(published.count == 3);
    CHECK(published.duplicates.empty());
    CHECK(published.last_key.size() == 32);

    AcquiredBlocks acquired = Value(second.session->Acquire({.tokens = tokens}, 5));
    CHECK(acquired.matched_blocks == 3);
    CHECK(acquired.last_key == published.last_key);
    REQUIRE(acquired.blocks.size() == 5);
    CHECK(RefsOf(std::span(acquired.blocks).first(3)) == RefsOf(written));
    // What it went on to compute goes after what was there.
    const client::Published more =
        Value(second.session->Publish({.tokens = std::span<const uint32_t>(tokens).subspan(3 * 16),
                                       .parent_key = acquired.last_key},
                                      {{acquired.blocks[3].ref()}}));
    CHECK(more.count == 1);
    const client::PrefixHint hint = Value(first.session->Peek({.tokens = tokens}));
    CHECK(hint.matched_tokens == 64);
    CHECK(node.Pool().held_blocks() == 5);
    acquired.blocks.clear();
    CHECK(second.session->Flush().ok());
    CHECK(node.Pool().held_blocks() == 3);
    CHECK(node.Pool().cached_blocks() == 1);
    node.CheckCounts();
  }
  CHECK(node.Pool().cached_blocks() == 4);
  Leave(node);
}

TEST_CASE("A lookup, acquire or publish whose answer is lost has happened once") {
  Node node(/*num_blocks=*/8);
  {
    Engine engine(node);
    const std::vector<uint32_t> tokens = Tokens(2);
    std::vector<BlockLease> written = Value(engine.session->Alloc(2));
    engine.transport->LoseNext();
    CHECK(Value(engine.session->Publish({.tokens = tokens}, RefsOf(written))).count == 2);
    written.clear();
    CHECK(engine.session->Flush().ok());
    engine.transport->LoseNext();
    client::FoundPrefix found = Value(engine.session->Lookup({.tokens = tokens}));
    CHECK(found.blocks.size() == 2);
    CHECK(node.eyes().GetBlock("p", ToIndex(found.blocks[0].id()))->ref_count() == 2);
    engine.transport->LoseNext();
    AcquiredBlocks acquired = Value(engine.session->Acquire({.tokens = tokens}, 3));
    CHECK(acquired.matched_blocks == 2);
    CHECK(node.eyes().GetBlock("p", ToIndex(acquired.blocks[0].id()))->ref_count() == 3);
    CHECK(node.Pool().held_blocks() == 3);
    node.CheckCounts();
  }
  Leave(node);
}

TEST_CASE("What is done with goes before the rest, and what is evicted by list goes at once") {
  Node node(/*num_blocks=*/4);
  {
    Engine engine(node);
    const std::vector<uint32_t> first = Tokens(2);
    std::vector<uint32_t> second = Tokens(2);
    second[0] = 0;
    {
      std::vector<BlockLease> leases = Value(engine.session->Alloc(4));
      const std::vector<BlockRef> refs = RefsOf(leases);
      CHECK(Value(engine.session->Publish({.tokens = first}, std::span(refs).first(2))).count == 2);
      CHECK(Value(engine.session->Publish({.tokens = second}, std::span(refs).last(2))).count == 2);
      const BlockLease fork = leases[0].Fork();
      CHECK(engine.session->Done(leases).code() == absl::StatusCode::kFailedPrecondition);
      CHECK(leases[0].ref() == fork.ref());
    }
    CHECK(engine.session->Flush().ok());
    client::FoundPrefix done = Value(engine.session->Lookup({.tokens = second}));
    CHECK(engine.session->Done(done.blocks).ok());
    CHECK(done.blocks[0].is_empty());
    CHECK(node.Pool().cached_blocks() == 4);
    {
      const std::vector<BlockLease> fresh = Value(engine.session->Alloc(2));
      CHECK(Value(engine.session->Peek({.tokens = first})).matched_tokens == 32);
      CHECK(Value(engine.session->Peek({.tokens = second})).matched_tokens == 0);
    }
    const client::PrefixHint left = Value(engine.session->Peek({.tokens = first}));
    CHECK(Value(engine.session->Evict({{left.blocks[1]}})).freed == 1);
    CHECK(Value(engine.session->EvictNext(5)).blocks == std::vector<BlockId>{left.blocks[0].block});
  }
  Leave(node);
}

TEST_CASE("A session without a model is told so before anything is looked up") {
  Node node(/*num_blocks=*/4);
  {
    const auto transport = std::make_shared<LosingTransport>(node.daemon().worker_socket());
    client::Client client = Value(client::Client::Create({.transport = transport}));
    const auto session = Value(client.OpenSession({.pool = "p"}));
    const std::vector<uint32_t> tokens = Tokens(1);
    CHECK(absl::IsInvalidArgument(session->Lookup({.tokens = tokens}).status()));
    CHECK(absl::IsInvalidArgument(session->Acquire({.tokens = tokens}, 1).status()));
  }
  Leave(node);
}

}  // namespace
}  // namespace kvpool::test
