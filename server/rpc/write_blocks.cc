#include "server/rpc/write_blocks.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/status_macros.h"
#include "server/rpc/admission.h"
#include "server/rpc/convert.h"
#include "server/rpc/refused_stream.h"
#include "server/rpc/status_mapping.h"
#include "server/rpc/step_order.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {
namespace {

using Reactor = grpc::ServerReadReactor<v1::WriteBlocksRequest>;

// Its steps follow one another, each begun by the end of the one before: no two threads are in
// it. A cancelled call shows as a read that fails. Owns itself until OnDone; a write in progress
// keeps it alive.
class WriteBlocksReactor final : public Reactor {
 public:
  static Reactor* Start(const ServiceContext& context, std::shared_ptr<const Peer> peer,
                        v1::WriteBlocksResponse* response) {
    auto reactor = std::make_shared<WriteBlocksReactor>(context, std::move(peer), response);
    reactor->self_ = reactor;
    reactor->ReadNext();
    return reactor.get();
  }

  WriteBlocksReactor(const ServiceContext& context, std::shared_ptr<const Peer> peer,
                     v1::WriteBlocksResponse* response)
      : context_(context), peer_(std::move(peer)), response_(response) {}

 private:
  void ReadNext() {
    DropMessage();
    order_.End();
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    order_.Begin();
    if (!ok) {
      End(session_.pool != nullptr
              ? absl::OkStatus()
              : absl::InvalidArgumentError("the stream is empty; its first message names the "
                                           "session"));
      return;
    }
    const bool is_first = session_.pool == nullptr;
    absl::Status status = TakeMemory();
    if (status.ok()) status = is_first ? Begin() : CheckSame();
    if (!status.ok()) {
      End(status);
      return;
    }
    if (!request_.has_piece() && is_first) {
      ReadNext();
      return;
    }
    absl::StatusOr<BlockPiece> piece = TakePiece();
    if (!piece.ok()) {
      End(piece.status());
      return;
    }
    const size_t size_bytes = piece->data.size();
    session_.pool->Write(caller(), *std::move(piece),
                         [self = self_, size_bytes](const absl::Status& written) {
                           self->Written(size_bytes, written);
                         });
  }

  // For the message, until its bytes have moved: a stream at rest holds nothing.
  absl::Status TakeMemory() {
    const size_t bytes = RequestBytes(request_);
    if (bytes == 0) return absl::OkStatus();
    KVPOOL_ASSIGN_OR_RETURN(memory_, TakeCallMemory(context_, *peer_, bytes));
    return absl::OkStatus();
  }

  void DropMessage() {
    request_ = v1::WriteBlocksRequest();
    memory_ = CallMemory();
  }

  // The first message: whose blocks are written to.
  absl::Status Begin() {
    KVPOOL_ASSIGN_OR_RETURN(SessionCall session,
                            FindSession(context_.sessions, "session_id", request_.session_id()));
    KVPOOL_RETURN_IF_ERROR(
        session.pool->BeginCall({.session = session.session, .tenant = peer_->tenant}));
    session_ = std::move(session);
    return absl::OkStatus();
  }

  absl::Status CheckSame() const {
    if (request_.session_id().empty() || request_.session_id() == session_.session.ToString()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "session_id of a later message is not that of the first; leave it empty");
  }

  absl::StatusOr<BlockPiece> TakePiece() {
    if (!request_.has_piece()) {
      return absl::InvalidArgumentError(
          "a message has no piece; only the first may go without one");
    }
    v1::BlockPiece& message = *request_.mutable_piece();
    KVPOOL_ASSIGN_OR_RETURN(const Side side, ToSide(message.side()));
    return BlockPiece{.range = {.shard = message.shard(),
                                .block = BlockId{message.block_id()},
                                .layer = message.layer(),
                                .side = side,
                                .offset_bytes = message.offset_bytes(),
                                .size_bytes = message.data().size()},
                      .data = std::move(*message.mutable_data())};
  }

  void Written(size_t size_bytes, const absl::Status& status) {
    if (!status.ok()) {
      End(status);
      return;
    }
    written_bytes_ += size_bytes;
    ReadNext();
  }

  void End(const absl::Status& status) {
    if (session_.pool != nullptr) session_.pool->EndCall(session_.session);
    DropMessage();
    response_->set_bytes(written_bytes_);
    Finish(ToGrpcStatus(status));
  }

  void OnDone() override { const std::shared_ptr<WriteBlocksReactor> last = std::move(self_); }

  Caller caller() const { return {.session = session_.session, .tenant = peer_->tenant}; }

  StepOrder order_;
  const ServiceContext& context_;
  const std::shared_ptr<const Peer> peer_;
  v1::WriteBlocksResponse* const response_;
  v1::WriteBlocksRequest request_;
  CallMemory memory_;    // Of request_.
  SessionCall session_;  // Without a pool until the first message has named it.
  uint64_t written_bytes_ = 0;
  std::shared_ptr<WriteBlocksReactor> self_;  // Set before it starts, reset when it is done.
};

}  // namespace

grpc::ServerReadReactor<v1::WriteBlocksRequest>* StartWriteBlocks(
    const ServiceContext& context, grpc::CallbackServerContext* call,
    v1::WriteBlocksResponse* response) {
  auto peer = Admit(context.peers, *call, Access::kBlocks);
  if (peer.ok()) return WriteBlocksReactor::Start(context, *std::move(peer), response);
  return new RefusedStream<Reactor>(peer.status());
}

}  // namespace kvpool::server
