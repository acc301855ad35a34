#include "server/rpc/list_blocks.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/status_macros.h"
#include "server/rpc/admission.h"
#include "server/rpc/inspect_convert.h"
#include "server/rpc/refused_stream.h"
#include "server/rpc/step_order.h"

namespace kvpool::server {
namespace {

using Reactor = grpc::ServerWriteReactor<v1::ListBlocksResponse>;

// Its steps follow one another, each begun by the end of the one before: no two threads are in
// it. A cancelled call shows as a write that fails. Owns itself until OnDone; work in progress
// keeps it alive.
class ListBlocksReactor final : public Reactor {
 public:
  // Lists blocks `first` up to `end`, the latter not included.
  static Reactor* Start(Executor& executor, std::shared_ptr<Pool> pool, Viewer viewer,
                        uint32_t first, uint32_t end) {
    auto reactor = std::make_shared<ListBlocksReactor>(executor, std::move(pool), std::move(viewer),
                                                       first, end);
    reactor->self_ = reactor;
    reactor->Continue();
    return reactor.get();
  }

  ListBlocksReactor(Executor& executor, std::shared_ptr<Pool> pool, Viewer viewer, uint32_t first,
                    uint32_t end)
      : executor_(executor),
        pool_(std::move(pool)),
        viewer_(std::move(viewer)),
        next_(first),
        end_(end) {}

 private:
  void Continue() {
    if (next_ == end_) {
      Finish(grpc::Status::OK);
      return;
    }
    executor_.Post([self = self_] { self->SendChunk(); });
  }

  void SendChunk() {
    const uint32_t count = std::min(kListBlocksChunk, end_ - next_);
    response_.clear_blocks();
    for (const BlockInfo& block : pool_->ListBlocks(next_, count)) {
      *response_.add_blocks() = ToBriefMessage(block, viewer_);
    }
    next_ += count;
    order_.End();
    StartWrite(&response_);
  }

  void OnWriteDone(bool ok) override {
    order_.Begin();
    if (ok) {
      Continue();
    } else {
      Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the stream broke"));
    }
  }

  void OnDone() override { const std::shared_ptr<ListBlocksReactor> last = std::move(self_); }

  StepOrder order_;
  Executor& executor_;
  const std::shared_ptr<Pool> pool_;
  const Viewer viewer_;
  uint32_t next_;
  const uint32_t end_;
  v1::ListBlocksResponse response_;
  std::shared_ptr<ListBlocksReactor> self_;  // Set before it starts, reset when it is done.
};

absl::StatusOr<Reactor*> Start(const ServiceContext& context, grpc::CallbackServerContext* call,
                               const v1::ListBlocksRequest& request) {
  KVPOOL_ASSIGN_OR_RETURN(const std::shared_ptr<const Peer> peer,
                          Admit(context.peers, *call, Access::kInspect));
  KVPOOL_ASSIGN_OR_RETURN(ServedPool served, context.pools.Find(request.pool()));
  const uint32_t num_blocks = served.pool->layout().num_blocks;
  if (request.first() > num_blocks || request.count() > num_blocks - request.first()) {
    return absl::InvalidArgumentError(absl::StrCat("first is ", request.first(), " and count ",
                                                   request.count(), "; pool '", request.pool(),
                                                   "' has ", num_blocks, " blocks"));
  }
  const uint32_t end = request.count() == 0 ? num_blocks : request.first() + request.count();
  return ListBlocksReactor::Start(context.workers, std::move(served.pool), ViewerOf(*peer),
                                  request.first(), end);
}

}  // namespace

grpc::ServerWriteReactor<v1::ListBlocksResponse>* StartListBlocks(
    const ServiceContext& context, grpc::CallbackServerContext* call,
    const v1::ListBlocksRequest& request) {
  const absl::StatusOr<Reactor*> reactor = Start(context, call, request);
  if (reactor.ok()) return *reactor;
  return new RefusedStream<Reactor>(reactor.status());
}

}  // namespace kvpool::server
