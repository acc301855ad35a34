#include "server/rpc/read_blocks.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/layout/pool_layout.h"
#include "core/status_macros.h"
#include "server/rpc/admission.h"
#include "server/rpc/convert.h"
#include "server/rpc/refused_stream.h"
#include "server/rpc/status_mapping.h"
#include "server/rpc/step_order.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {
namespace {

using Reactor = grpc::ServerWriteReactor<v1::ReadBlocksResponse>;

// Its steps follow one another, each begun by the end of the one before: no two threads are in
// it. A cancelled call shows as a write that fails. Owns itself until OnDone; a read in progress
// keeps it alive.
class ReadBlocksReactor final : public Reactor {
 public:
  static Reactor* Start(const ServiceContext& context, Place place, AdmittedCall call,
                        const v1::ReadBlocksRequest* request) {
    auto reactor = std::make_shared<ReadBlocksReactor>(std::move(call));
    reactor->self_ = reactor;
    PostAt(place, context, *reactor->call_.peer, [reactor, &context, request] {
      const absl::Status status = reactor->Open(context, *request);
      if (status.ok()) {
        reactor->ReadNext();
      } else {
        reactor->Finish(ToGrpcStatus(status));
      }
    });
    return reactor.get();
  }

  explicit ReadBlocksReactor(AdmittedCall call) : call_(std::move(call)) {}

 private:
  absl::Status Open(const ServiceContext& context, const v1::ReadBlocksRequest& request) {
    KVPOOL_ASSIGN_OR_RETURN(const SessionCall session,
                            FindSession(context.sessions, "session_id", request.session_id()));
    KVPOOL_ASSIGN_OR_RETURN(
        std::vector<BlockRef> blocks,
        ToBlockRefs("blocks", request.blocks(), context.limits.max_blocks_per_call));
    if (std::cmp_greater(request.layers_size(), kMaxLayers)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "layers names ", request.layers_size(), " layers; one call takes at most ", kMaxLayers));
    }
    KVPOOL_ASSIGN_OR_RETURN(
        reader_, session.pool->OpenReader(
                     {.session = session.session, .tenant = call_.peer->tenant}, std::move(blocks),
                     {request.layers().begin(), request.layers().end()}, request.shard()));
    return absl::OkStatus();
  }

  void ReadNext() {
    reader_->Next([self = self_](absl::StatusOr<std::optional<BlockPiece>> piece) {
      self->Send(std::move(piece));
    });
  }

  void Send(absl::StatusOr<std::optional<BlockPiece>> piece) {
    if (!piece.ok() || !piece->has_value()) {
      Finish(ToGrpcStatus(piece.status()));
      return;
    }
    BlockPiece& read = **piece;
    v1::BlockPiece& message = *response_.mutable_piece();
    message.set_block_id(ToIndex(read.range.block));
    message.set_layer(read.range.layer);
    message.set_side(FromSide(read.range.side));
    message.set_offset_bytes(read.range.offset_bytes);
    message.set_shard(read.range.shard);
    message.set_data(std::move(read.data));
    order_.End();
    StartWrite(&response_);
  }

  void OnWriteDone(bool ok) override {
    order_.Begin();
    if (ok) {
      ReadNext();
    } else {
      Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the stream broke"));
    }
  }

  void OnDone() override { const std::shared_ptr<ReadBlocksReactor> last = std::move(self_); }

  const AdmittedCall call_;
  StepOrder order_;
  std::unique_ptr<Pool::Reader> reader_;
  v1::ReadBlocksResponse response_;
  std::shared_ptr<ReadBlocksReactor> self_;  // Set before it starts, reset when it is done.
};

}  // namespace

grpc::ServerWriteReactor<v1::ReadBlocksResponse>* StartReadBlocks(
    const ServiceContext& context, Place place, grpc::CallbackServerContext* call,
    const v1::ReadBlocksRequest* request) {
  auto admitted = AdmitCall(context, *call, Access::kBlocks, *request, kStreamBytes);
  if (!admitted.ok()) return new RefusedStream<Reactor>(admitted.status());
  return ReadBlocksReactor::Start(context, place, *std::move(admitted), request);
}

}  // namespace kvpool::server
