#include "server/rpc/list_calls.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/status_macros.h"
#include "server/rpc/admission.h"
#include "server/rpc/inspect_convert.h"
#include "server/rpc/list_stream.h"
#include "server/rpc/refused_stream.h"

namespace kvpool::server {
namespace {

// Begins to send what `start(peer)` gives, or ends with its error. What `start` gives holds
// `list_bytes` beside its messages.
template <typename Message, typename Request, typename Start>
grpc::ServerWriteReactor<Message>* StartList(const ServiceContext& context,
                                             grpc::CallbackServerContext* call,
                                             const Request& request, size_t list_bytes,
                                             const Start& start) {
  using Reactor = grpc::ServerWriteReactor<Message>;
  absl::StatusOr<AdmittedCall> admitted =
      AdmitCall(context, *call, Access::kInspect, request, kStreamBytes + list_bytes);
  if (!admitted.ok()) return new RefusedStream<Reactor>(admitted.status());
  absl::StatusOr<NextMessage<Message>> next = start(*admitted->peer);
  if (!next.ok()) return new RefusedStream<Reactor>(next.status());
  const auto stream = ListStream<Message>::Make(context.workers, *std::move(admitted));
  stream->Begin(*std::move(next));
  return stream.get();
}

using WeakPools = std::vector<std::weak_ptr<Pool>>;

WeakPools Weak(const std::vector<ServedPool>& pools) {
  WeakPools weak;
  for (const ServedPool& served : pools) weak.push_back(served.pool);
  return weak;
}

class PoolLister {
 public:
  PoolLister(Viewer viewer, WeakPools pools)
      : viewer_(std::move(viewer)), pools_(std::move(pools)) {}

  absl::StatusOr<bool> operator()(v1::ListPoolsResponse& message) {
    for (size_t bytes = 0; bytes < kListMessageBytes && next_ < pools_.size(); ++next_) {
      const std::shared_ptr<Pool> pool = pools_[next_].lock();
      if (pool == nullptr) continue;
      v1::PoolStatus& added = *message.add_pools();
      added = ToMessage(*pool, viewer_);
      bytes += added.ByteSizeLong();
    }
    return message.pools_size() > 0;
  }

 private:
  Viewer viewer_;
  WeakPools pools_;
  size_t next_ = 0;
};

class SessionLister {
 public:
  SessionLister(const ServiceContext& context, Viewer viewer, WeakPools pools)
      : context_(context),
        clock_(context.clock),
        viewer_(std::move(viewer)),
        pools_(std::move(pools)) {}

  absl::StatusOr<bool> operator()(v1::ListSessionsResponse& message) {
    size_t bytes = 0;
    while (bytes < kListMessageBytes && FindNext()) {
      const SessionInfo& session = sessions_[next_session_++];
      if (!viewer_.Sees(session.tenant)) continue;
      v1::SessionStatus& added = *message.add_sessions();
      added = ToMessage(session, pool_name_, context_.sessions.Proof(session.id), clock_);
      bytes += added.ByteSizeLong();
    }
    return bytes > 0;
  }

 private:
  // Goes on to the next pool that has sessions where there are none left; false: no pool has.
  bool FindNext() {
    for (; next_session_ == sessions_.size(); ++next_pool_) {
      if (next_pool_ == pools_.size()) return false;
      const std::shared_ptr<Pool> pool = pools_[next_pool_].lock();
      if (pool == nullptr) continue;
      pool_name_ = pool->layout().spec.name;
      sessions_ = pool->ListSessions();
      next_session_ = 0;
    }
    return true;
  }

  const ServiceContext& context_;
  WallClock clock_;
  Viewer viewer_;
  WeakPools pools_;
  size_t next_pool_ = 0;
  std::string pool_name_;  // Whose sessions these are.
  std::vector<SessionInfo> sessions_;
  size_t next_session_ = 0;
};

class BlockLister {
 public:
  // Lists blocks `first` up to `end`, the latter not included.
  BlockLister(Viewer viewer, std::weak_ptr<Pool> pool, uint32_t first, uint32_t end)
      : viewer_(std::move(viewer)), pool_(std::move(pool)), next_(first), end_(end) {}

  absl::StatusOr<bool> operator()(v1::ListBlocksResponse& message) {
    const uint32_t count = std::min(kListBlocksChunk, end_ - next_);
    if (count == 0) return false;
    const std::shared_ptr<Pool> pool = pool_.lock();
    if (pool == nullptr) return absl::AbortedError("the pool was deleted meanwhile");
    for (const BlockInfo& block : pool->ListBlocks(next_, count)) {
      *message.add_blocks() = ToBriefMessage(block, viewer_);
    }
    next_ += count;
    return true;
  }

 private:
  Viewer viewer_;
  std::weak_ptr<Pool> pool_;
  uint32_t next_;
  uint32_t end_;
};

}  // namespace

grpc::ServerWriteReactor<v1::ListPoolsResponse>* StartListPools(
    const ServiceContext& context, grpc::CallbackServerContext* call,
    const v1::ListPoolsRequest& request) {
  using Next = NextMessage<v1::ListPoolsResponse>;
  return StartList<v1::ListPoolsResponse>(
      context, call, request, /*list_bytes=*/0, [&](const Peer& peer) -> absl::StatusOr<Next> {
        return Next(PoolLister(ViewerOf(peer), Weak(context.pools.List())));
      });
}

grpc::ServerWriteReactor<v1::ListSessionsResponse>* StartListSessions(
    const ServiceContext& context, grpc::CallbackServerContext* call,
    const v1::ListSessionsRequest& request) {
  using Next = NextMessage<v1::ListSessionsResponse>;
  constexpr size_t kBytesPerSession = 512;  // A SessionInfo with names of usual length.
  return StartList<v1::ListSessionsResponse>(
      context, call, request, context.sessions.size() * kBytesPerSession,
      [&](const Peer& peer) -> absl::StatusOr<Next> {
        std::vector<ServedPool> pools;
        if (request.pool().empty()) {
          pools = context.pools.List();
        } else {
          KVPOOL_ASSIGN_OR_RETURN(ServedPool served, context.pools.Find(request.pool()));
          pools.push_back(std::move(served));
        }
        return Next(SessionLister(context, ViewerOf(peer), Weak(pools)));
      });
}

grpc::ServerWriteReactor<v1::ListBlocksResponse>* StartListBlocks(
    const ServiceContext& context, grpc::CallbackServerContext* call,
    const v1::ListBlocksRequest& request) {
  using Next = NextMessage<v1::ListBlocksResponse>;
  return StartList<v1::ListBlocksResponse>(
      context, call, request, /*list_bytes=*/0, [&](const Peer& peer) -> absl::StatusOr<Next> {
        KVPOOL_ASSIGN_OR_RETURN(const ServedPool served, context.pools.Find(request.pool()));
        const uint32_t num_blocks = served.pool->layout().num_blocks;
        if (request.first() > num_blocks || request.count() > num_blocks - request.first()) {
          return absl::InvalidArgumentError(
              absl::StrCat("first is ", request.first(), " and count ", request.count(), "; pool '",
                           request.pool(), "' has ", num_blocks, " blocks"));
        }
        const uint32_t end = request.count() == 0 ? num_blocks : request.first() + request.count();
        return Next(BlockLister(ViewerOf(peer), served.pool, request.first(), end));
      });
}

}  // namespace kvpool::server
