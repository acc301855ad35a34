#include "core/pool/sliced_operation.h"

#include <algorithm>
#include <utility>

#include "core/pool/byte_errors.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

// The call of `side` that pins entries `first` to `first + count`.
PinCall MakePinCall(const SliceSide& side, size_t first, size_t count) {
  const auto slice = [&](const std::vector<BlockRef>& list) {
    return list.empty() ? std::span<const BlockRef>() : std::span(list).subspan(first, count);
  };
  PinCall call{.caller = side.call->caller(),
               .reads = slice(side.reads),
               .writes = slice(side.writes),
               .write_session = std::nullopt};
  if (side.write_call != nullptr) call.write_session = side.write_call->caller().session;
  return call;
}

}  // namespace

size_t SlicedOperation::SliceBlocks(const PoolLayout& layout) {
  // Never 0 nor an overflow: the memory of this many bytes has been allocated.
  return std::max<uint64_t>(1, kSliceBytes / (layout.block_bytes * layout.num_shards()));
}

void SlicedOperation::Start(std::vector<SliceSide> sides, size_t size, size_t slice_blocks,
                            Move move, Done done) {
  const std::shared_ptr<SlicedOperation> operation(
      new SlicedOperation(std::move(sides), size, slice_blocks, std::move(move), std::move(done)));
  // One slice is checked whole by its pin.
  if (size > slice_blocks) operation->failure_ = operation->Check();
  operation->Continue();
}

SlicedOperation::SlicedOperation(std::vector<SliceSide> sides, size_t size, size_t slice_blocks,
                                 Move move, Done done)
    : sides_(std::move(sides)),
      size_(size),
      slice_blocks_(slice_blocks),
      move_(std::move(move)),
      done_(std::move(done)) {}

absl::Status SlicedOperation::Check() {
  for (SliceSide& side : sides_) {
    RunningCall& call = *side.call;
    KVPOOL_RETURN_IF_ERROR(call.ledger().CheckPin(MakePinCall(side, 0, size_)));
    KVPOOL_RETURN_IF_ERROR(call.ledger().PinDown(call.caller(), side.reads));
    const RunningCall& writer = side.write_call == nullptr ? call : *side.write_call;
    KVPOOL_RETURN_IF_ERROR(call.ledger().PinDown(writer.caller(), side.writes));
  }
  return absl::OkStatus();
}

void SlicedOperation::Continue() {
  const auto self = shared_from_this();
  loop_.Continue([this] { Step(); });
}

// Whatever a step starts is the last thing that it does: its end may come on another thread.
void SlicedOperation::Step() {
  if (!failure_.ok()) {
    Unpin();
    return Finish();
  }
  if (is_moved_) {
    Unpin();
    first_ += slice_size();
    is_moved_ = false;
  }
  if (first_ == size_) return Finish();
  if (pins_.size() < sides_.size()) return PinSide(sides_[pins_.size()]);
  MoveSlice();
}

void SlicedOperation::PinSide(const SliceSide& side) {
  side.call->ledger().Pin(MakePinCall(side, first_, slice_size()),
                          [self = shared_from_this()](absl::StatusOr<PendingId> pin) {
                            if (pin.ok()) {
                              self->pins_.push_back(*pin);
                            } else {
                              self->failure_ =
                                  CountIndexFrom(static_cast<uint32_t>(self->first_), pin.status());
                            }
                            self->Continue();
                          });
}

void SlicedOperation::MoveSlice() {
  is_moved_ = true;
  move_(first_, slice_size(), [self = shared_from_this()](const absl::Status& status) {
    if (!status.ok()) self->failure_ = DeviceFailed(status);
    self->Continue();
  });
}

void SlicedOperation::Unpin() {
  for (size_t i = 0; i < pins_.size(); ++i) sides_[i].call->ledger().Unpin(pins_[i]);
  pins_.clear();
}

void SlicedOperation::Finish() {
  for (const SliceSide& side : sides_) {
    side.call->End();
    if (side.write_call != nullptr) side.write_call->End();
  }
  done_(failure_);
}

size_t SlicedOperation::slice_size() const { return std::min(slice_blocks_, size_ - first_); }

}  // namespace kvpool
