// Answers that are lost on their way to a client, which asks again.
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "client/client.h"
#include "tests/integration/support/forwarding_transport.h"
#include "tests/integration/support/node.h"
#include "tests/support/catch.h"

namespace kvpool::test {
namespace {

using client::BlockLease;
using client::CallContext;

// gRPC to a real daemon, that can lose the answer to an Alloc.
class LosingTransport final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;

  // The next Alloc is carried out, its answer lost, and `meanwhile` called before that is known.
  void LoseNextAlloc(std::function<void()> meanwhile) { meanwhile_ = std::move(meanwhile); }
  // The keys of the Allocs, in turn.
  const std::vector<uint64_t>& keys() const { return keys_; }

  absl::Status Alloc(const v1::AllocRequest& request, const CallContext& call,
                     v1::AllocResponse& response) override {
    keys_.push_back(request.idempotency_key());
    const absl::Status status = ForwardingTransport::Alloc(request, call, response);
    if (meanwhile_ == nullptr) return status;
    REQUIRE(status.ok());
    std::exchange(meanwhile_, nullptr)();
    response.Clear();
    return absl::UnavailableError("the answer was lost");
  }

 private:
  std::function<void()> meanwhile_;
  std::vector<uint64_t> keys_;
};

TEST_CASE("An Alloc that releases, repeated after its answer was lost, has happened once") {
  Node node(/*num_blocks=*/8);
  RawClient* const other_client = node.Connect();
  const auto other = Value(RawSession::Open(*other_client, {}));
  {
    const auto transport = std::make_shared<LosingTransport>(node.daemon().worker_socket());
    client::ClientOptions options;
    options.transport = transport;
    client::Client client = Value(client::Client::Create(std::move(options)));
    const auto session = Value(client.OpenSession({.pool = "p"}));
    std::vector<BlockLease> released = Value(session->Alloc(4));
    v1::Blocks taken;
    // Between the call and its repeat somebody else takes what it let go: that a repeat must not
    // touch.
    transport->LoseNextAlloc([&] {
      CHECK(node.FreeBlocks() == 6);
      taken = Value(other->Alloc(6));
      node.CheckCounts();
    });
    const std::vector<BlockLease> leases =
        Value(session->Alloc(2, {.release = std::span(released)}));
    CHECK(leases.size() == 2);
    for (const BlockLease& lease : released) CHECK(lease.is_empty());
    const std::vector<uint64_t>& keys = transport->keys();
    REQUIRE(keys.size() == 3);
    CHECK(keys[1] == keys[2]);
    CHECK(keys[0] != keys[1]);
    CHECK(node.Pool().held_blocks() == 8);
    CHECK(node.FreeBlocks() == 0);
    node.CheckCounts();
    CHECK(Said(other->DecRef(taken)) == "OK");
    CHECK(node.FreeBlocks() == 6);
    CHECK(session->Close().ok());
  }
  CHECK(node.FreeBlocks() == 8);
  CHECK(Said(other->Close()) == "OK");
  node.CheckAllIsBack();
}

}  // namespace
}  // namespace kvpool::test
