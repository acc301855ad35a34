#include "core/memory/memory.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/mutex.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

// Turns the completions of the shards' parts into one, which is called after the last of them.
class Join {
 public:
  // Requires parts > 0.
  Join(size_t parts, Completion done) : remaining_(parts), done_(std::move(done)) {}

  void Finish(absl::Status status) {
    {
      const MutexLock lock(mutex_);
      if (first_error_.ok()) first_error_ = std::move(status);
      if (--remaining_ > 0) return;
      status = std::move(first_error_);
    }
    done_(std::move(status));
  }

 private:
  Mutex mutex_;
  size_t remaining_ ABSL_GUARDED_BY(mutex_);
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
  Completion done_;  // Belongs to the thread that finishes the last part.
};

// The completion of one shard's part. Keeps the extents until then.
template <typename Extents>
Completion PartOf(std::shared_ptr<Join> join, std::shared_ptr<const Extents> extents) {
  return [join = std::move(join), extents = std::move(extents)](absl::Status status) {
    join->Finish(std::move(status));
  };
}

// The layout of a side, or nullptr where the layer has no such side.
const SideLayout* FindSide(const LayerLayout& layer, Side side) {
  if (side == Side::kK) return &layer.k;
  if (side == Side::kV && layer.v.has_value()) return &*layer.v;
  return nullptr;
}

Extent ExtentOf(const PoolLayout& layout, const PieceRange& range) {
  const SideLayout& side = *FindSide(layout.layers[range.layer], range.side);
  return {.offset_bytes =
              side.offset_bytes + ToIndex(range.block) * side.stride_bytes + range.offset_bytes,
          .size_bytes = range.size_bytes};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Memory>> Memory::Create(const PoolLayout& layout,
                                                       std::span<Device* const> devices) {
  KVPOOL_CHECK(!devices.empty() && devices.size() == layout.num_shards());
  std::unique_ptr<Memory> memory(new Memory(layout, devices));
  for (size_t shard = 0; shard < devices.size(); ++shard) {
    KVPOOL_ASSIGN_OR_RETURN(
        std::unique_ptr<Region> region,
        devices[shard]->Allocate(layout.shard_bytes,
                                 absl::StrCat("kvpool-", layout.spec.name, "-", shard)));
    memory->regions_.push_back(std::move(region));
  }
  return memory;
}

Memory::Memory(const PoolLayout& layout, std::span<Device* const> devices)
    : layout_(layout), devices_(devices.begin(), devices.end()), runs_(layout) {}

void Memory::Fill(std::span<const BlockId> blocks, uint8_t value, Completion done) {
  const auto extents = std::make_shared<const std::vector<Extent>>(runs_.Extents(blocks));
  // The last part may end, and the owner let go of this, before its call is back here.
  const size_t shards = regions_.size();
  const auto join = std::make_shared<Join>(shards, std::move(done));
  for (size_t shard = 0; shard < shards; ++shard) {
    devices_[shard]->Fill(*regions_[shard], *extents, value, PartOf(join, extents));
  }
}

void Memory::Copy(std::span<const BlockId> sources, Memory& destination,
                  std::span<const BlockId> destinations, Completion done) {
  KVPOOL_CHECK(layout_.fingerprint == destination.layout_.fingerprint);
  KVPOOL_CHECK(regions_.size() == destination.regions_.size());
  const auto extents = std::make_shared<const std::vector<CopyExtent>>(
      runs_.CopyExtents(sources, destination.runs_, destinations));
  const size_t shards = regions_.size();
  const auto join = std::make_shared<Join>(shards, std::move(done));
  for (size_t shard = 0; shard < shards; ++shard) {
    const Region& from = *regions_[shard];
    Region& to = *destination.regions_[shard];
    const bool is_from_host_to_device = !from.host_bytes().empty() && to.host_bytes().empty();
    Device* const copier = is_from_host_to_device ? destination.devices_[shard] : devices_[shard];
    copier->Copy(from, to, *extents, PartOf(join, extents));
  }
}

absl::Status Memory::Check(const PieceRange& range) const {
  if (range.shard >= layout_.num_shards()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard ", range.shard, " of ", layout_.num_shards()));
  }
  if (ToIndex(range.block) >= layout_.num_blocks) {
    return absl::InvalidArgumentError(
        absl::StrCat("block ", ToIndex(range.block), " of ", layout_.num_blocks));
  }
  if (range.layer >= layout_.layers.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer ", range.layer, " of ", layout_.layers.size()));
  }
  const SideLayout* side = FindSide(layout_.layers[range.layer], range.side);
  if (side == nullptr) {
    return absl::InvalidArgumentError(
        range.side == Side::kV
            ? std::string("side v, of a pool that keeps none")
            : absl::StrCat("side ", static_cast<uint32_t>(range.side), " is neither k nor v"));
  }
  // Not offset + size, which a client can make wrap.
  if (range.offset_bytes > side->block_bytes ||
      range.size_bytes > side->block_bytes - range.offset_bytes) {
    return absl::OutOfRangeError(absl::StrCat(
        range.size_bytes, " bytes at ", range.offset_bytes, " pass the end of layer ", range.layer,
        "'s side ", range.side == Side::kK ? "k" : "v", " of ", side->block_bytes, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status Memory::health() const {
  for (const Device* const device : devices_) KVPOOL_RETURN_IF_ERROR(device->health());
  return absl::OkStatus();
}

void Memory::Read(const PieceRange& range, std::span<std::byte> bytes, Completion done) {
  KVPOOL_CHECK(Check(range).ok());
  KVPOOL_CHECK(bytes.size() == range.size_bytes);
  auto extent = std::make_unique<const Extent>(ExtentOf(layout_, range));
  const std::span<const Extent> extents(extent.get(), 1);
  devices_[range.shard]->Read(*regions_[range.shard], extents, bytes,
                              [extent = std::move(extent), done = std::move(done)](
                                  absl::Status status) mutable { done(std::move(status)); });
}

void Memory::Write(const PieceRange& range, std::span<const std::byte> bytes, Completion done) {
  KVPOOL_CHECK(Check(range).ok());
  KVPOOL_CHECK(bytes.size() == range.size_bytes);
  auto extent = std::make_unique<const Extent>(ExtentOf(layout_, range));
  const std::span<const Extent> extents(extent.get(), 1);
  devices_[range.shard]->Write(*regions_[range.shard], extents, bytes,
                               [extent = std::move(extent), done = std::move(done)](
                                   absl::Status status) mutable { done(std::move(status)); });
}

void Memory::Sum(std::span<const PieceRange> ranges, Dtype dtype, std::span<ExtentSums> results,
                 Completion done) {
  KVPOOL_CHECK(!ranges.empty() && ranges.size() == results.size());
  const uint32_t shard = ranges.front().shard;
  std::vector<Extent> extents;
  extents.reserve(ranges.size());
  for (const PieceRange& range : ranges) {
    KVPOOL_CHECK(Check(range).ok() && range.shard == shard);
    extents.push_back(ExtentOf(layout_, range));
  }
  const std::span<const Extent> view(extents);
  devices_[shard]->Sum(*regions_[shard], view, dtype, results,
                       [extents = std::move(extents), done = std::move(done)](
                           absl::Status status) mutable { done(std::move(status)); });
}

}  // namespace kvpool
