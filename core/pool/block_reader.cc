#include "core/pool/block_reader.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/pool/byte_errors.h"
#include "core/pool/running_call.h"
#include "core/pool/step_loop.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

using PieceCallback = absl::AnyInvocable<void(absl::StatusOr<std::optional<BlockPiece>>)>;

// What is read: sides of some layers of some blocks, a piece after the other.
class PieceCursor {
 public:
  PieceCursor(const PoolLayout& layout, std::vector<uint32_t> layers, size_t block_count,
              uint32_t shard)
      : layout_(layout), layers_(std::move(layers)), block_count_(block_count), shard_(shard) {}

  bool is_at_end() const { return block_ == block_count_; }
  // The place of the piece's block in the list.
  size_t block_index() const { return block_; }
  // The piece here, of `block`.
  PieceRange Range(BlockId block) const {
    return {.shard = shard_,
            .block = block,
            .layer = layers_[layer_],
            .side = side_,
            .offset_bytes = offset_bytes_,
            .size_bytes = std::min(kMaxPieceBytes, side_bytes() - offset_bytes_)};
  }
  void Advance() {
    offset_bytes_ += std::min(kMaxPieceBytes, side_bytes() - offset_bytes_);
    if (offset_bytes_ < side_bytes()) return;
    offset_bytes_ = 0;
    if (side_ == Side::kK && layout_.spec.v_mode == VMode::kSeparate) {
      side_ = Side::kV;
      return;
    }
    side_ = Side::kK;
    if (++layer_ < layers_.size()) return;
    layer_ = 0;
    ++block_;
  }

 private:
  uint64_t side_bytes() const {
    const LayerLayout& layer = layout_.layers[layers_[layer_]];
    return side_ == Side::kK ? layer.k.block_bytes : layer.v->block_bytes;
  }

  const PoolLayout& layout_;
  std::vector<uint32_t> layers_;
  size_t block_count_;
  uint32_t shard_;
  size_t block_ = 0;
  size_t layer_ = 0;  // Index in layers_.
  Side side_ = Side::kK;
  uint64_t offset_bytes_ = 0;
};

// A reader's work, which lives on while a piece is being read though the reader itself is gone.
class BlockRead : public std::enable_shared_from_this<BlockRead> {
 public:
  BlockRead(std::unique_ptr<RunningCall> call, std::vector<BlockRef> blocks, PieceCursor cursor)
      : call_(std::move(call)), blocks_(std::move(blocks)), cursor_(std::move(cursor)) {}

  void Next(PieceCallback done) {
    KVPOOL_CHECK(done_ == nullptr);
    done_ = std::move(done);
    stage_ = Stage::kPin;
    Continue();
  }

 private:
  enum class Stage : uint8_t { kPin, kRead, kGive };

  const BlockRef& block() const { return blocks_[cursor_.block_index()]; }

  void Continue() {
    const auto self = shared_from_this();
    loop_.Continue([this] { Step(); });
  }

  // Whatever a step starts is the last thing that it does: its end may come on another thread.
  void Step() {
    switch (stage_) {
      case Stage::kPin:
        return Pin();
      case Stage::kRead:
        return Read();
      case Stage::kGive:
        return Give();
    }
  }

  void Pin() {
    if (!failure_.ok()) return Answer(failure_);
    if (cursor_.is_at_end()) return Answer(std::optional<BlockPiece>());
    stage_ = Stage::kRead;
    call_->ledger().Pin({.caller = call_->caller(),
                         .reads = std::span(&block(), 1),
                         .writes = {},
                         .write_session = std::nullopt},
                        [self = shared_from_this()](const absl::StatusOr<PendingId>& pin) {
                          self->pin_ = pin;
                          self->Continue();
                        });
  }

  void Read() {
    if (!pin_.ok()) return Fail(pin_.status());
    stage_ = Stage::kGive;
    piece_.range = cursor_.Range(block().block);
    piece_.data.resize(piece_.range.size_bytes);
    call_->memory().Read(piece_.range, std::as_writable_bytes(std::span(piece_.data)),
                         [self = shared_from_this()](absl::Status status) {
                           self->read_ = std::move(status);
                           self->Continue();
                         });
  }

  void Give() {
    const absl::Status held = call_->ledger().UnpinHeld(*pin_, call_->caller(), block());
    if (!held.ok()) return Fail(held);
    if (!read_.ok()) return Fail(DeviceFailed(read_));
    cursor_.Advance();
    Answer(std::exchange(piece_, {}));
  }

  void Fail(const absl::Status& error) {
    const auto index = static_cast<uint32_t>(cursor_.block_index());
    failure_ = LetGoMeanwhile(CountIndexFrom(index, error));
    Answer(failure_);
  }

  void Answer(absl::StatusOr<std::optional<BlockPiece>> answer) {
    // The next call may come before this one's callback has returned.
    PieceCallback done = std::exchange(done_, nullptr);
    done(std::move(answer));
  }

  const std::unique_ptr<RunningCall> call_;
  const std::vector<BlockRef> blocks_;  // At the generations that they had at the start.

  StepLoop loop_;
  // Each belongs to the step that runs, or to the end of what it started.
  PieceCursor cursor_;
  PieceCallback done_;
  Stage stage_ = Stage::kPin;
  absl::StatusOr<PendingId> pin_;
  absl::Status read_;
  BlockPiece piece_;
  absl::Status failure_;  // What every later call is answered with.
};

class BlockReader final : public Pool::Reader {
 public:
  explicit BlockReader(std::shared_ptr<BlockRead> read) : read_(std::move(read)) {}

  void Next(PieceCallback done) override { read_->Next(std::move(done)); }

 private:
  const std::shared_ptr<BlockRead> read_;
};

absl::Status CheckLayers(std::span<const uint32_t> layers, uint32_t layer_count) {
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] >= layer_count) {
      return absl::InvalidArgumentError(
          absl::StrCat("layer ", layers[i], " is not one of the pool's ", layer_count));
    }
    if (i > 0 && layers[i] <= layers[i - 1]) {
      return absl::InvalidArgumentError(absl::StrCat("layer ", layers[i], " follows layer ",
                                                     layers[i - 1], ": layers must ascend"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Pool::Reader>> OpenBlockReader(const PoolHandle& pool,
                                                              const Caller& caller,
                                                              std::vector<BlockRef> blocks,
                                                              std::vector<uint32_t> layers,
                                                              uint32_t shard) {
  const PoolLayout& layout = pool.memory->layout();
  if (shard >= layout.num_shards()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard ", shard, " is not one of the pool's ", layout.num_shards()));
  }
  KVPOOL_RETURN_IF_ERROR(CheckLayers(layers, static_cast<uint32_t>(layout.layers.size())));
  if (layers.empty()) {
    layers.resize(layout.layers.size());
    std::iota(layers.begin(), layers.end(), 0U);
  }
  std::unique_ptr<RunningCall> call;
  KVPOOL_ASSIGN_OR_RETURN(call, RunningCall::Begin(pool, caller));
  KVPOOL_RETURN_IF_ERROR(pool.ledger->PinDown(caller, blocks));
  PieceCursor cursor(layout, std::move(layers), blocks.size(), shard);
  return std::make_unique<BlockReader>(
      std::make_shared<BlockRead>(std::move(call), std::move(blocks), std::move(cursor)));
}

}  // namespace kvpool
