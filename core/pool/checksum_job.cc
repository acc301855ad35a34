#include "core/pool/checksum_job.h"

#include <algorithm>
#include <limits>
#include <memory>
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

// One side of a section, and what it has come to.
struct Part {
  size_t section = 0;
  Side side{};
  const SideLayout& layout;
  ChecksumBuilder builder;
};

// Where among the parts' bytes the work is.
struct Cursor {
  size_t part = 0;
  size_t block = 0;  // Of its section.
  uint64_t offset_bytes = 0;
};

// When a list of sides to add up at once is full: it is some launches then, which reads wait for.
constexpr size_t kMaxSumSides = 4096;
constexpr uint64_t kMaxSumBytes = uint64_t{256} << 20;

// Sums up the sections' bytes, each side apart: where they are, many sides at once, or else by
// reading them through one buffer, on the thread that a read ends on. It pins nothing: nobody waits
// for an operator who looks, and generations tell whether what was seen was whole.
class ChecksumJob : public std::enable_shared_from_this<ChecksumJob> {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<BlockChecksum>>)>;

  // `blocks` are at known generations.
  ChecksumJob(PoolHandle pool, std::vector<BlockRef> blocks, std::vector<Section> sections,
              uint32_t shard, Done done)
      : pool_(std::move(pool)),
        blocks_(std::move(blocks)),
        sections_(std::move(sections)),
        shard_(shard),
        done_(std::move(done)) {
    // All K before all V: neighbours are of one dtype, and go together, even where V's is another.
    AddParts(Side::kK);
    AddParts(Side::kV);
  }

  void Continue() {
    const auto self = shared_from_this();
    loop_.Continue([this] { Step(); });
  }

 private:
  void AddParts(Side side) {
    const PoolLayout& layout = pool_.memory->layout();
    if (side == Side::kV && layout.spec.v_mode != VMode::kSeparate) return;
    for (size_t i = 0; i < sections_.size(); ++i) {
      const LayerLayout& layer = layout.layers[sections_[i].layer];
      const SideLayout& place = side == Side::kK ? layer.k : *layer.v;
      parts_.push_back(
          {.section = i, .side = side, .layout = place, .builder = ChecksumBuilder(place.dtype)});
    }
  }

  // Whatever a step starts is the last thing that it does: its end may come on another thread.
  void Step() {
    if (is_summing_ && absl::IsUnimplemented(ended_)) {
      // From these on.
      is_summing_ = false;
      next_ = begin_;
    } else if (ended_.ok()) {
      AddWhatCame();
    } else {
      return done_(DeviceFailed(ended_));
    }
    ranges_.clear();
    owners_.clear();
    if (is_summing_ && FindSides()) return SumSides();
    if (!is_summing_ && FindPiece()) return ReadPiece();
    const absl::Status unchanged = pool_.ledger->PinDownLive(blocks_);
    if (!unchanged.ok()) return done_(LetGoMeanwhile(unchanged));
    done_(Results());
  }

  void AddWhatCame() {
    for (size_t i = 0; i < ranges_.size(); ++i) {
      ChecksumBuilder& builder = parts_[owners_[i]].builder;
      const uint64_t size_bytes = ranges_[i].size_bytes;
      if (is_summing_) {
        builder.Add(sums_[i], size_bytes);
      } else {
        builder.Add(std::span(buffer_).first(size_bytes));
      }
    }
    begin_ = next_;
  }

  // Each sets ranges_ to what is next, if there is something.

  bool FindSides() {
    uint64_t bytes = 0;
    while (ranges_.size() < kMaxSumSides && bytes < kMaxSumBytes) {
      const Cursor before = next_;
      if (!Take(std::numeric_limits<uint64_t>::max())) break;
      if (parts_[owners_.back()].layout.dtype != parts_[owners_.front()].layout.dtype) {
        next_ = before;
        ranges_.pop_back();
        owners_.pop_back();
        break;
      }
      bytes += ranges_.back().size_bytes;
    }
    return !ranges_.empty();
  }

  bool FindPiece() { return Take(kMaxPieceBytes); }

  // Puts the range at next_, of `max_bytes` at most and of one side of one block, behind ranges_.
  bool Take(uint64_t max_bytes) {
    for (; next_.part < parts_.size(); next_ = {.part = next_.part + 1}) {
      const Part& part = parts_[next_.part];
      const Section& section = sections_[part.section];
      if (section.first + next_.block == section.end) continue;
      ranges_.push_back(
          {.shard = shard_,
           .block = blocks_[section.first + next_.block].block,
           .layer = section.layer,
           .side = part.side,
           .offset_bytes = next_.offset_bytes,
           .size_bytes = std::min(max_bytes, part.layout.block_bytes - next_.offset_bytes)});
      owners_.push_back(next_.part);
      next_.offset_bytes += ranges_.back().size_bytes;
      if (next_.offset_bytes == part.layout.block_bytes) {
        next_.offset_bytes = 0;
        ++next_.block;
      }
      return true;
    }
    return false;
  }

  void SumSides() {
    sums_.resize(ranges_.size());
    pool_.memory->Sum(ranges_, parts_[owners_.front()].layout.dtype, sums_, WhenOver());
  }

  void ReadPiece() {
    const PieceRange& range = ranges_.front();
    // Grows to the largest piece once.
    if (buffer_.size() < range.size_bytes) buffer_.resize(range.size_bytes);
    pool_.memory->Read(range, std::span(buffer_).first(range.size_bytes), WhenOver());
  }

  Completion WhenOver() {
    return [self = shared_from_this()](absl::Status status) {
      self->ended_ = std::move(status);
      self->Continue();
    };
  }

  std::vector<BlockChecksum> Results() const {
    std::vector<BlockChecksum> results(sections_.size());
    for (const Part& part : parts_) {
      BlockChecksum& result = results[part.section];
      (part.side == Side::kK ? result.k : result.v) = part.builder.Result();
    }
    return results;
  }

  const PoolHandle pool_;
  std::vector<BlockRef> blocks_;
  const std::vector<Section> sections_;
  const uint32_t shard_;
  Done done_;

  StepLoop loop_;
  // Each belongs to the step that runs, or to the end of what it started.
  std::vector<Part> parts_;
  bool is_summing_ = true;          // False where the bytes are read.
  Cursor begin_;                    // Of ranges_.
  Cursor next_;                     // Behind them.
  std::vector<PieceRange> ranges_;  // What is being summed up or read.
  std::vector<size_t> owners_;      // Whose each range is, in parts_.
  std::vector<ExtentSums> sums_;    // What each range comes to.
  std::vector<std::byte> buffer_;   // The bytes of the only one.
  absl::Status ended_;
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
