#include "client/session.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "client/convert.h"
#include "client/leased_reference.h"
#include "client/retrier.h"
#include "client/session_core.h"
#include "core/check.h"
#include "core/error.h"
#include "core/status_macros.h"
#include "proto/convert/layout_convert.h"

namespace kvpool::client {
namespace {

// A piece of WriteBlocks goes out in messages of that much data: under the 1 MiB of those that
// ReadBlocks sends.
constexpr size_t kMaxPieceBytes = 512 << 10;

absl::Status CheckGenerations(std::span<const BlockRef> blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].generation != Generation{}) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("entry ", i, ", block ", ToIndex(blocks[i].block), ", has no generation"));
  }
  return absl::OkStatus();
}

BlockPiece PieceFromProto(const v1::BlockPiece& proto) {
  return {.block = BlockId{proto.block_id()},
          .layer = proto.layer(),
          .side = proto.side() == v1::SIDE_V ? BlockSide::kV : BlockSide::kK,
          .offset_bytes = proto.offset_bytes(),
          .data = std::as_bytes(std::span(proto.data())),
          .shard = proto.shard()};
}

// Hands out pieces cut to messages, the session's id in the first.
class MessageCutter {
 public:
  MessageCutter(const SessionId& session, std::span<const BlockPiece> pieces)
      : session_(session), pieces_(pieces) {}

  // Fills in the next message; false where there is none.
  bool Next(v1::WriteBlocksRequest& message) {
    if (index_ == pieces_.size()) return false;
    const BlockPiece& piece = pieces_[index_];
    const auto data =
        piece.data.subspan(cut_bytes_, std::min(kMaxPieceBytes, piece.data.size() - cut_bytes_));
    message.Clear();
    if (index_ == 0 && cut_bytes_ == 0) message.set_session_id(session_.ToString());
    v1::BlockPiece& proto = *message.mutable_piece();
    proto.set_block_id(ToIndex(piece.block));
    proto.set_layer(piece.layer);
    proto.set_side(piece.side == BlockSide::kV ? v1::SIDE_V : v1::SIDE_K);
    proto.set_offset_bytes(piece.offset_bytes + cut_bytes_);
    proto.set_data(data.data(), data.size());
    proto.set_shard(piece.shard);
    cut_bytes_ += data.size();
    if (cut_bytes_ == piece.data.size()) {
      ++index_;
      cut_bytes_ = 0;
    }
    return true;
  }

 private:
  const SessionId session_;
  const std::span<const BlockPiece> pieces_;
  size_t index_ = 0;
  size_t cut_bytes_ = 0;  // Of the piece at `index_`, sent already.
};

}  // namespace

Session::Session(std::shared_ptr<SessionCore> core) : core_(std::move(core)) {}

Session::~Session() {
  if (!core_->fork_guard().is_in_child()) Close().IgnoreError();
}

absl::Status Session::Close() { return core_->Close(); }

bool Session::alive() const { return status().ok(); }

absl::Status Session::status() const { return core_->status(); }

absl::StatusOr<std::vector<BlockLease>> Session::Alloc(uint32_t count,
                                                       const AllocOptions& options) {
  KVPOOL_RETURN_IF_ERROR(core_->CheckUsable());
  KVPOOL_ASSIGN_OR_RETURN(const std::vector<BlockRef> release, CheckRelease(options.release));
  const Duration wait = core_->ClampWait(options.wait);
  v1::AllocRequest request;
  request.set_session_id(id().ToString());
  request.set_count(count);
  request.set_allow_partial(options.allow_partial);
  if (wait > Duration::zero()) *request.mutable_wait() = DurationToProto(wait);
  request.set_fill(FillToProto(options.fill));
  if (!release.empty()) BlocksToProto(release, *request.mutable_release());
  request.set_idempotency_key(core_->NextKey());

  core_->releaser().Wait();
  v1::AllocResponse response;
  const absl::Status status = core_->Call(&Transport::Alloc, request, response, wait);
  EndReleased(options.release, status);
  KVPOOL_RETURN_IF_ERROR(status);
  KVPOOL_ASSIGN_OR_RETURN(const std::vector<BlockRef> refs,
                          BlocksFromProto(response.blocks(), layout().num_blocks));
  return MakeLeases(refs);
}

absl::StatusOr<std::vector<BlockLease>> Session::IncRef(std::span<const BlockRef> blocks) {
  KVPOOL_RETURN_IF_ERROR(CheckGenerations(blocks));
  v1::IncRefRequest request;
  request.set_session_id(id().ToString());
  BlocksToProto(blocks, *request.mutable_blocks());
  request.set_idempotency_key(core_->NextKey());
  v1::IncRefResponse response;
  KVPOOL_RETURN_IF_ERROR(core_->Call(&Transport::IncRef, request, response));
  return MakeLeases(blocks);
}

absl::Status Session::Flush() {
  KVPOOL_RETURN_IF_ERROR(core_->CheckUsable());
  return core_->releaser().Flush();
}

absl::Status Session::FillBlocks(std::span<const BlockRef> blocks, Fill fill) {
  v1::FillBlocksRequest request;
  request.set_session_id(id().ToString());
  BlocksToProto(blocks, *request.mutable_blocks());
  request.set_fill(FillToProto(fill));
  v1::FillBlocksResponse response;
  return core_->Call(&Transport::FillBlocks, request, response);
}

absl::Status Session::CopyBlocks(std::span<const BlockRef> sources,
                                 std::span<const BlockRef> targets) {
  v1::CopyBlocksRequest request;
  request.set_session_id(id().ToString());
  BlocksToProto(sources, *request.mutable_sources());
  BlocksToProto(targets, *request.mutable_destinations());
  v1::CopyBlocksResponse response;
  return core_->Call(&Transport::CopyBlocks, request, response);
}

absl::Status Session::ReadBlocks(std::span<const BlockRef> blocks, std::span<const uint32_t> layers,
                                 uint32_t shard,
                                 absl::FunctionRef<absl::Status(const BlockPiece&)> sink) {
  v1::ReadBlocksRequest request;
  request.set_session_id(id().ToString());
  BlocksToProto(blocks, *request.mutable_blocks());
  request.mutable_layers()->Add(layers.begin(), layers.end());
  request.set_shard(shard);
  bool has_piece = false;
  absl::Status sunk;
  const absl::Status status =
      core_->Transfer([&] { return !has_piece; },
                      [&](const CallContext& call) {
                        return core_->transport().ReadBlocks(
                            request, call, [&](const v1::ReadBlocksResponse& response) {
                              has_piece = true;
                              sunk = sink(PieceFromProto(response.piece()));
                              return sunk.ok();
                            });
                      });
  return sunk.ok() ? status : sunk;
}

absl::Status Session::WriteBlocks(std::span<const BlockPiece> pieces) {
  KVPOOL_RETURN_IF_ERROR(core_->CheckUsable());
  if (pieces.empty()) return absl::OkStatus();
  v1::WriteBlocksResponse response;
  return core_->Transfer(
      [] { return true; },
      [&](const CallContext& call) {
        MessageCutter cutter(id(), pieces);
        return core_->transport().WriteBlocks(
            call, [&cutter](v1::WriteBlocksRequest& message) { return cutter.Next(message); },
            response);
      });
}

const SessionId& Session::id() const { return core_->opened().id; }

const PoolLayout& Session::layout() const { return *core_->opened().layout; }

const Limits& Session::limits() const { return core_->opened().limits; }

absl::StatusOr<std::vector<BlockRef>> Session::CheckRelease(
    std::span<const BlockLease> leases) const {
  std::vector<BlockRef> refs;
  for (size_t i = 0; i < leases.size(); ++i) {
    LeasedReference* const reference = leases[i].reference_.get();
    if (reference == nullptr) continue;
    if (&reference->session() != core_.get()) {
      return absl::InvalidArgumentError(absl::StrCat("lease ", i, " is another session's"));
    }
    if (reference->is_shared()) {
      return absl::FailedPreconditionError(
          absl::StrCat("lease ", i, ", block ", ToIndex(reference->ref().block), ", has forks"));
    }
    refs.push_back(reference->ref());
  }
  return refs;
}

void Session::EndReleased(std::span<BlockLease> leases, const absl::Status& status) const {
  // Without an answer the blocks may be others' by now, and giving them back once more could end
  // another lease's reference. An ended session's calls say that it has ended, not how they did.
  if (!status.ok() && !IsWorthRetrying(status) && core_->status().ok()) return;
  for (BlockLease& lease : leases) lease.reference_.reset();
}

std::vector<BlockLease> Session::MakeLeases(std::span<const BlockRef> refs) const {
  std::vector<BlockLease> leases;
  leases.reserve(refs.size());
  for (const BlockRef& ref : refs) {
    leases.push_back(BlockLease(std::make_shared<LeasedReference>(core_, ref)));
  }
  return leases;
}

}  // namespace kvpool::client
