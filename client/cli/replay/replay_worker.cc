#include "client/cli/replay/replay_worker.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <span>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "client/cli/replay/block_name.h"
#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool::replay {
namespace {

using std::chrono::steady_clock;

// How long a worker that waits for a request's time may go on after another has failed.
constexpr std::chrono::milliseconds kLongestSleep{100};
// Until the session is attached, it lives by the daemon's clock, which may run fast.
constexpr Duration kTtl = std::chrono::hours(1);

std::vector<BlockRef> RefsOf(std::span<const client::BlockLease> leases) {
  std::vector<BlockRef> refs;
  refs.reserve(leases.size());
  for (const client::BlockLease& lease : leases) refs.push_back(lease.ref());
  return refs;
}

// Makes a call, and sets how long it took.
template <typename Call>
auto Time(const Call& call, int64_t& nanoseconds) {
  const auto begin = steady_clock::now();
  auto result = call();
  nanoseconds = std::chrono::nanoseconds(steady_clock::now() - begin).count();
  return result;
}

}  // namespace

absl::StatusOr<ReplayWorker> ReplayWorker::Open(const WorkerPlan& plan, uint32_t worker,
                                                Board& board) {
  client::ClientOptions options{.socket = plan.socket};
  options.retry.attempt_timeout = plan.timeout;
  options.retry.total_timeout = plan.timeout;
  KVPOOL_ASSIGN_OR_RETURN(client::Client client, client::Client::Create(std::move(options)));
  KVPOOL_ASSIGN_OR_RETURN(std::unique_ptr<client::Session> session,
                          client.OpenSession({.pool = plan.pool,
                                              .client_name = absl::StrCat("replay-", worker),
                                              .ttl = kTtl,
                                              .model_id = "replay"}));
  ReplayWorker opened(plan, board, std::move(session));
  KVPOOL_RETURN_IF_ERROR(opened.TakeShare(worker));
  return opened;
}

absl::Status ReplayWorker::TakeShare(uint32_t worker) {
  const uint32_t num_blocks = session_->layout().num_blocks;
  uint32_t longest = 0;
  for (const TraceRequest& request : plan_.trace.requests()) {
    longest = std::max(longest, CountBlocks(request));
  }
  const uint32_t capacity = plan_.capacity.value_or(0);
  const uint32_t left = num_blocks - std::min(num_blocks, capacity);
  const uint32_t room = plan_.capacity.has_value() ? left / plan_.workers : num_blocks;
  if (longest > room) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the longest request takes ", longest, " blocks; of the pool's ", num_blocks,
        plan_.capacity.has_value() ? absl::StrCat(", ", capacity, " cached, a worker has ", room)
                                   : " there are no more"));
  }
  if (!plan_.capacity.has_value()) return absl::OkStatus();
  // What does not divide is the first worker's.
  uint32_t share = room + (worker == 0 ? left % plan_.workers : 0);
  while (share > 0) {
    const uint32_t count = std::min(share, session_->limits().max_blocks_per_call);
    KVPOOL_ASSIGN_OR_RETURN(std::vector<client::BlockLease> blocks, session_->Alloc(count));
    std::ranges::move(blocks, std::back_inserter(share_));
    share -= count;
  }
  share_size_ = share_.size();
  return absl::OkStatus();
}

absl::Status ReplayWorker::Run() {
  while (const std::optional<size_t> index = board_.TakeRequest()) {
    const TraceRequest& request = plan_.trace.requests()[*index];
    if (!WaitFor(request)) break;
    KVPOOL_RETURN_IF_ERROR(Serve(request, plan_.is_done[*index], board_.results()[*index]));
  }
  return absl::OkStatus();
}

absl::Status ReplayWorker::Close() {
  share_.clear();
  return session_->Close();
}

uint32_t ReplayWorker::CountBlocks(const TraceRequest& request) const {
  const uint64_t tokens = request.input_tokens + request.output_tokens;
  return static_cast<uint32_t>((tokens + plan_.block_tokens - 1) / plan_.block_tokens);
}

bool ReplayWorker::WaitFor(const TraceRequest& request) const {
  if (plan_.speed == 0) return true;
  const auto time = board_.begin() + TimeAtSpeed(request.time, plan_.speed);
  for (auto now = steady_clock::now(); now < time; now = steady_clock::now()) {
    if (board_.has_failed()) return false;
    std::this_thread::sleep_for(std::min<steady_clock::duration>(time - now, kLongestSleep));
  }
  return true;
}

absl::Status ReplayWorker::Serve(const TraceRequest& request, bool is_done, RequestResult& result) {
  const uint32_t count = CountBlocks(request);
  std::vector<std::string> hashes;
  for (const BlockName& name : NameBlocks(plan_.trace.blocks(request))) {
    hashes.push_back(name.ToHash());
  }
  const client::Prefix prefix{.block_hashes = hashes};
  if (plan_.capacity.has_value()) {
    share_.resize(share_.size() - count);
    KVPOOL_RETURN_IF_ERROR(session_->Flush());
  }
  auto acquired = Time([&] { return session_->Acquire(prefix, count); }, result.acquire_ns);
  if (absl::IsResourceExhausted(acquired.status())) {
    result.state = RequestResult::State::kRefused;
    return plan_.capacity.has_value() ? Release({}, false) : absl::OkStatus();
  }
  KVPOOL_RETURN_IF_ERROR(acquired.status());
  result.hit_blocks = acquired->matched_blocks;
  if (acquired->matched_blocks < hashes.size()) {
    KVPOOL_RETURN_IF_ERROR(Publish(prefix, *acquired, result));
  }
  KVPOOL_RETURN_IF_ERROR(
      Time([&] { return Release(std::move(acquired->blocks), is_done); }, result.release_ns));
  result.state = RequestResult::State::kServed;
  return absl::OkStatus();
}

absl::Status ReplayWorker::Publish(const client::Prefix& prefix,
                                   const client::AcquiredBlocks& acquired, RequestResult& result) {
  const std::vector<BlockRef> refs =
      RefsOf(std::span(acquired.blocks).first(prefix.block_hashes.size()));
  auto published = Time(
      [&] {
        const uint32_t skip = acquired.matched_blocks;
        auto answer = session_->Publish(prefix, std::span(refs).subspan(skip), skip);
        // What was found may be findable no more: a full pool gives up held leaves, too.
        if (GetErrorDetail(answer.status()).reason != Reason::kParentUnknown) return answer;
        return session_->Publish(prefix, refs);
      },
      result.publish_ns);
  KVPOOL_RETURN_IF_ERROR(published.status());
  result.published_blocks = published->count;
  return absl::OkStatus();
}

absl::Status ReplayWorker::Release(std::vector<client::BlockLease> blocks, bool is_done) {
  if (is_done) KVPOOL_RETURN_IF_ERROR(session_->Done(blocks));
  if (!plan_.capacity.has_value()) {
    blocks.clear();
    return session_->Flush();
  }
  KVPOOL_ASSIGN_OR_RETURN(
      std::vector<client::BlockLease> taken,
      session_->Alloc(static_cast<uint32_t>(share_size_ - share_.size()), {.release = blocks}));
  std::ranges::move(taken, std::back_inserter(share_));
  return absl::OkStatus();
}

}  // namespace kvpool::replay
