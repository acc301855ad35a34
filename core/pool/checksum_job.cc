#include "core/pool/checksum_job.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/pool/block_reader.h"
#include "core/pool/byte_errors.h"
#include "core/pool/step_loop.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

// A run of the list whose bytes in one layer are summed up together.
struct Section {
  uint32_t layer = 0;
  size_t first = 0;
  size_t end = 0;
};

// Reads the sections' bytes through one buffer and sums them up, each side apart. It pins nothing:
// nobody waits for an operator who looks, and generations tell whether what was seen was whole.
// Sums are made on the thread that a read ends on.
class ChecksumJob : public std::enable_shared_from_this<ChecksumJob> {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<BlockChecksum>>)>;

  // `blocks` are at known generations.
  ChecksumJob(PoolHandle pool, std::vector<BlockRef> blocks, std::vector<Section> sections,
              uint32_t shard, Done done)
      : pool_(std::move(pool)),
        blocks_(std::move(blocks)),
        sections_(std::move(sections)),
        done_(std::move(done)) {
    range_.shard = shard;
    results_.reserve(sections_.size());
  }

  void Continue() {
    const auto self = shared_from_this();
    loop_.Continue([this] { Step(); });
  }

 private:
  const SideLayout* side_layout() const {
    const PoolLayout& layout = pool_.memory->layout();
    const LayerLayout& layer = layout.layers[sections_[results_.size()].layer];
    if (range_.side == Side::kK) return &layer.k;
    return layout.spec.v_mode == VMode::kSeparate ? &*layer.v : nullptr;
  }

  // Whatever a step starts is the last thing that it does: its end may come on another thread.
  void Step() {
    if (!read_.ok()) return done_(DeviceFailed(read_));
    if (range_.size_bytes > 0) AddPiece();
    while (results_.size() < sections_.size()) {
      if (FindPiece()) return ReadPiece();
      FinishSide();
    }
    const absl::Status unchanged = pool_.ledger->PinDownLive(blocks_);
    if (!unchanged.ok()) return done_(LetGoMeanwhile(unchanged));
    done_(std::move(results_));
  }

  void AddPiece() {
    builder_->Add(std::span(buffer_).first(range_.size_bytes));
    range_.offset_bytes += range_.size_bytes;
    range_.size_bytes = 0;
    if (range_.offset_bytes < side_layout()->block_bytes) return;
    range_.offset_bytes = 0;
    ++block_;
  }

  // Sets range_ to the next piece of this side of this section, if there is one.
  bool FindPiece() {
    const Section& section = sections_[results_.size()];
    const SideLayout* side = side_layout();
    if (side == nullptr) return false;
    if (!builder_.has_value()) {
      builder_.emplace(side->dtype);
      block_ = section.first;
    }
    if (block_ == section.end) return false;
    range_.block = blocks_[block_].block;
    range_.layer = section.layer;
    range_.size_bytes = std::min(kMaxPieceBytes, side->block_bytes - range_.offset_bytes);
    return true;
  }

  void ReadPiece() {
    // Grows to the largest piece once.
    if (buffer_.size() < range_.size_bytes) buffer_.resize(range_.size_bytes);
    pool_.memory->Read(range_, std::span(buffer_).first(range_.size_bytes),
                       [self = shared_from_this()](absl::Status status) {
                         self->read_ = std::move(status);
                         self->Continue();
                       });
  }

  void FinishSide() {
    SideChecksum sums;
    if (builder_.has_value()) sums = builder_->Result();
    builder_.reset();
    if (range_.side == Side::kK) {
      section_.k = sums;
      range_.side = Side::kV;
      return;
    }
    section_.v = sums;
    range_.side = Side::kK;
    results_.push_back(std::exchange(section_, {}));
  }

  const PoolHandle pool_;
  std::vector<BlockRef> blocks_;
  const std::vector<Section> sections_;
  Done done_;

  StepLoop loop_;
  // Each belongs to the step that runs, or to the end of what it started.
  std::vector<BlockChecksum> results_;  // Of the sections before this one.
  BlockChecksum section_;
  std::optional<ChecksumBuilder> builder_;  // Of this side.
  size_t block_ = 0;                        // Index in blocks_.
  PieceRange range_;                        // Of 0 bytes where nothing is being read.
  std::vector<std::byte> buffer_;
  absl::Status read_;
};

absl::Status CheckShard(const PoolHandle& pool, uint32_t shard) {
  const uint32_t num_shards = pool.memory->layout().num_shards();
  if (shard < num_shards) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("shard ", shard, " is not one of the pool's ", num_shards));
}

void StartJob(const PoolHandle& pool, std::vector<BlockRef> blocks, std::vector<Section> sections,
              uint32_t shard, ChecksumJob::Done done) {
  absl::Status valid = CheckShard(pool, shard);
  if (valid.ok()) valid = pool.ledger->PinDownLive(blocks);
  if (!valid.ok()) return done(std::move(valid));
  std::make_shared<ChecksumJob>(pool, std::move(blocks), std::move(sections), shard,
                                std::move(done))
      ->Continue();
}

}  // namespace

void ChecksumLayers(const PoolHandle& pool, std::vector<BlockRef> blocks, uint32_t boundary,
                    uint32_t shard,
                    absl::AnyInvocable<void(absl::StatusOr<std::vector<LayerChecksum>>)> done) {
  const size_t border = std::min<size_t>(boundary, blocks.size());
  const auto num_layers = static_cast<uint32_t>(pool.memory->layout().layers.size());
  std::vector<Section> sections;
  sections.reserve(size_t{2} * num_layers);
  for (uint32_t layer = 0; layer < num_layers; ++layer) {
    sections.push_back({.layer = layer, .first = 0, .end = border});
    sections.push_back({.layer = layer, .first = border, .end = blocks.size()});
  }
  StartJob(pool, std::move(blocks), std::move(sections), shard,
           [done = std::move(done)](absl::StatusOr<std::vector<BlockChecksum>> sums) mutable {
             if (!sums.ok()) return done(std::move(sums).status());
             std::vector<LayerChecksum> layers;
             layers.reserve(sums->size() / 2);
             for (size_t i = 0; i + 1 < sums->size(); i += 2) {
               const BlockChecksum& prefix = (*sums)[i];
               const BlockChecksum& suffix = (*sums)[i + 1];
               layers.push_back({.prefix_k = prefix.k,
                                 .prefix_v = prefix.v,
                                 .suffix_k = suffix.k,
                                 .suffix_v = suffix.v});
             }
             done(std::move(layers));
           });
}

void ChecksumBlocks(const PoolHandle& pool, std::vector<BlockRef> blocks, uint32_t layer,
                    uint32_t shard,
                    absl::AnyInvocable<void(absl::StatusOr<std::vector<BlockChecksum>>)> done) {
  const size_t num_layers = pool.memory->layout().layers.size();
  if (layer >= num_layers) {
    return done(absl::InvalidArgumentError(
        absl::StrCat("layer ", layer, " is not one of the pool's ", num_layers)));
  }
  std::vector<Section> sections;
  sections.reserve(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    sections.push_back({.layer = layer, .first = i, .end = i + 1});
  }
  StartJob(pool, std::move(blocks), std::move(sections), shard, std::move(done));
}

}  // namespace kvpool
