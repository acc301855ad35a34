#include "tests/integration/support/node.h"

#include <algorithm>
#include <map>
#include <set>

#include "tests/integration/support/test_device.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

// gRPC starts and ends threads as the load asks for, each with two mappings and an arena of
// malloc's; a leak of one a connection or a session is far more in the cases that look for it.
constexpr size_t kThreadSlack = 16;
// A sanitizer's allocator maps as it goes.
constexpr size_t kMapSlack = kIsSanitized ? 4'096 : 64;
// What malloc keeps of thousands of calls, streams and sessions at once; cases that make them see
// for themselves that it grows no more when they come again. (A sanitizer keeps all that was
// freed.)
constexpr uint64_t kAnonymousSlack = 96 << 20;
// A block's part of its pool's tables and of the longest lists.
constexpr uint64_t kAnonymousSlackPerBlock = 64;

// How long what must come may take on a machine that is busy with other tests.
constexpr std::chrono::seconds kPatience = std::chrono::minutes(2);

}  // namespace

std::string PoolJson(const std::string& name, uint32_t num_blocks, const std::string& more) {
  return R"({"name": ")" + name + R"(", "num_blocks": )" + std::to_string(num_blocks) +
         R"(, "num_layers": 2, "num_kv_heads": 2, "head_dim": 16, "dtype": "bf16")" +
         (more.find(R"("devices")") == std::string::npos ? DevicesJson() : "") + more + "}";
}

std::string OnePool(uint32_t num_blocks, const std::string& more) {
  return "[" + PoolJson("p", num_blocks, more) + "]";
}

// The node waits on its own connection: another's descriptors might still be there when it looks.
DaemonProcess::Options Node::NotWaiting(DaemonProcess::Options options) {
  options.wait_until_serving = false;
  return options;
}

Node::Node(DaemonProcess::Options options)
    : daemon_(NotWaiting(std::move(options))),
      eyes_(std::make_unique<RawClient>(daemon_.Connect(daemon_.operator_socket()))),
      hands_(std::make_unique<RawClient>(daemon_.Connect(daemon_.worker_socket()))) {
  const bool is_serving = Eventually(
      [&] {
        const auto health = eyes_->Health();
        return health.ok() && *health == grpc::health::v1::HealthCheckResponse::SERVING;
      },
      kPatience);
  INFO(daemon_.Log());
  REQUIRE(is_serving);
  REQUIRE(Said(hands_->GetDaemon()) == "OK");
  before_ = Look();
}

Node::~Node() {
  if (!is_back_ || !daemon_.process().IsRunning()) return;
  eyes_.reset();
  hands_.reset();
  const int exit_code = daemon_.Stop();
  INFO(daemon_.Log());
  CHECK(exit_code == 0);
}

RawClient* Node::Connect() {
  clients_.push_back(std::make_unique<RawClient>(daemon_.Connect(daemon_.worker_socket())));
  return clients_.back().get();
}

v1::PoolStatus Node::Pool(const std::string& name) {
  absl::StatusOr<v1::PoolStatus> pool = eyes_->GetPool(name);
  REQUIRE(Said(pool) == "OK");
  return *std::move(pool);
}

bool Node::BecomeFree(uint32_t count) {
  return Eventually([&] { return Pool().free_blocks() == count; }, kPatience);
}

bool Node::BecomeWaiting(uint32_t count) {
  return Eventually([&] { return Pool().waiting_calls() == count; }, kPatience);
}

std::vector<v1::PoolStatus> Node::Pools() {
  absl::StatusOr<std::vector<v1::PoolStatus>> pools = eyes_->ListPools();
  REQUIRE(Said(pools) == "OK");
  return *std::move(pools);
}

void Node::CheckPool(const v1::PoolStatus& pool) {
  const std::string& name = pool.layout().spec().name();
  CAPTURE(name);
  v1::ListBlocksRequest request;
  request.set_pool(name);
  const auto blocks = eyes_->ListBlocks(request);
  const auto sessions = eyes_->ListSessions(name);
  REQUIRE(Said(blocks) == "OK");
  REQUIRE(Said(sessions) == "OK");
  REQUIRE(blocks->size() == pool.layout().num_blocks());
  uint64_t of_blocks = 0;
  std::map<v1::BlockStatus::State, uint32_t> counts;
  for (const v1::BlockStatus& block : *blocks) {
    of_blocks += block.ref_count();
    ++counts[block.state()];
  }
  uint64_t of_sessions = 0;
  for (const v1::SessionStatus& session : *sessions) of_sessions += session.references();
  // The cache has one reference to each of its blocks.
  CHECK(of_blocks == of_sessions + pool.published_blocks());
  CHECK(pool.free_blocks() == counts[v1::BlockStatus::STATE_FREE]);
  CHECK(pool.cached_blocks() == counts[v1::BlockStatus::STATE_CACHED]);
  CHECK(pool.held_blocks() == counts[v1::BlockStatus::STATE_HELD]);
  CHECK(pool.quarantined_blocks() == counts[v1::BlockStatus::STATE_QUARANTINED]);
  counts.erase(v1::BlockStatus::STATE_FREE);
  counts.erase(v1::BlockStatus::STATE_CACHED);
  counts.erase(v1::BlockStatus::STATE_HELD);
  counts.erase(v1::BlockStatus::STATE_QUARANTINED);
  CHECK(counts.empty());
}

void Node::CheckCounts() {
  for (const v1::PoolStatus& pool : Pools()) CheckPool(pool);
}

void Node::CheckDrainBeside(const std::string& name) {
  CAPTURE(name);
  v1::ListBlocksRequest list;
  list.set_pool(name);
  std::set<uint32_t> expected;
  for (const v1::BlockStatus& block : Value(eyes_->ListBlocks(list))) {
    if (block.state() != v1::BlockStatus::STATE_HELD &&
        block.state() != v1::BlockStatus::STATE_QUARANTINED) {
      expected.insert(block.block_id());
    }
  }
  v1::OpenSessionRequest request;
  request.set_pool(name);
  const auto session = Value(RawSession::Open(*hands_, request));
  std::set<uint32_t> drained;
  absl::StatusOr<v1::Blocks> one = session->Alloc(1);
  while (one.ok()) {
    CHECK(drained.insert(one->block_ids(0)).second);
    one = session->Alloc(1);
  }
  CHECK(Said(one) == "RESOURCE_EXHAUSTED POOL_FULL");
  CHECK(drained == expected);
  CHECK(Said(session->Close()) == "OK");
}

void Node::CheckDrain(const v1::PoolStatus& pool) {
  v1::OpenSessionRequest request;
  request.set_pool(pool.layout().spec().name());
  const auto session = RawSession::Open(*hands_, request);
  REQUIRE(Said(session) == "OK");
  const uint32_t limit = (*session)->opened().limits().max_blocks_per_call();
  std::vector<bool> is_taken(pool.layout().num_blocks(), false);
  size_t count = 0;
  size_t distinct = 0;
  while (true) {
    const auto blocks = (*session)->AllocUpTo(std::min(limit, pool.layout().num_blocks()));
    REQUIRE(Said(blocks) == "OK");
    if (blocks->block_ids().empty()) break;
    count += static_cast<size_t>(blocks->block_ids_size());
    for (const uint32_t id : blocks->block_ids()) {
      distinct += is_taken.at(id) ? 0U : 1U;
      is_taken[id] = true;
    }
  }
  CHECK(count == pool.layout().num_blocks());
  CHECK(distinct == count);
  CHECK(Said((*session)->Alloc(1)) == "RESOURCE_EXHAUSTED POOL_FULL");
  CHECK(Said((*session)->Close()) == "OK");
}

void Node::CheckAllIsBack() {
  clients_.clear();
  const bool all_left = Eventually(
      [&] {
        for (const v1::PoolStatus& pool : Pools()) {
          if (pool.sessions() > 0 || pool.free_blocks() != pool.layout().num_blocks()) return false;
        }
        return true;
      },
      kPatience);
  CHECK(all_left);
  for (const v1::PoolStatus& pool : Pools()) {
    CheckPool(pool);
    CheckDrain(pool);
  }
  // A connection that is closing has its descriptors a moment longer. The node's own are there when
  // it looks: the daemon ends connections that are idle for long, which would make up for others
  // that stay. The calls also make this process's gRPC end what it has to end.
  Footprint after;
  const bool is_back = Eventually(
      [&] {
        if (!eyes_->GetDaemon().ok() || !hands_->GetDaemon().ok()) return false;
        after = Look();
        return IsBack(after);
      },
      kPatience);
  CAPTURE(before_.fds, after.fds, before_.threads, after.threads, before_.maps, after.maps);
  CAPTURE(before_.anonymous_bytes, after.anonymous_bytes);
  CHECK(is_back);
  CHECK(daemon_.process().IsRunning());
  is_back_ = true;
}

bool Node::IsBack(const Footprint& now) {
  uint64_t blocks = 0;
  for (const v1::PoolStatus& pool : Pools()) blocks += pool.layout().num_blocks();
  const uint64_t slack = kAnonymousSlack + kAnonymousSlackPerBlock * blocks;
  return now.fds <= before_.fds && now.threads <= before_.threads + kThreadSlack &&
         now.maps <= before_.maps + kMapSlack &&
         (kIsSanitized || now.anonymous_bytes <= before_.anonymous_bytes + slack);
}

Node::Footprint Node::Look() const {
  return {.fds = daemon_.CountFds(),
          .threads = daemon_.CountThreads(),
          .maps = daemon_.CountMaps(),
          .anonymous_bytes = daemon_.AnonymousBytes()};
}

}  // namespace kvpool::test
