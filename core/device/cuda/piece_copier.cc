#include "core/device/cuda/piece_copier.h"

#include <algorithm>
#include <span>
#include <vector>

#include "core/status_macros.h"

namespace kvpool::cuda {
namespace {

// From which size on the copy engines are faster than threads that copy, and leave the GPU's
// threads to others.
constexpr uint64_t kEngineBytes = uint64_t{128} << 10;

struct Sizes {
  uint64_t sum = 0;
  uint64_t max = 0;
};

Sizes SizesOf(std::span<const CopyPiece> pieces) {
  Sizes sizes;
  for (const CopyPiece& piece : pieces) {
    sizes.sum += piece.size;
    sizes.max = std::max(sizes.max, piece.size);
  }
  return sizes;
}

// One call for all of them, in the declaration that the driver has. Requires that it has one.
absl::Status CopyBatch(Lane& lane, std::span<const CopyPiece> pieces) {
  std::vector<DevicePointer> to;
  std::vector<DevicePointer> from;
  std::vector<size_t> sizes;
  to.reserve(pieces.size());
  from.reserve(pieces.size());
  sizes.reserve(pieces.size());
  for (const CopyPiece& piece : pieces) {
    to.push_back(piece.to);
    from.push_back(piece.from);
    sizes.push_back(piece.size);
  }
  // In the order of the stream: any other may read a source before what was put there.
  CopyAttributes attributes{.source_access_order = kSourceAccessOrderStream};
  size_t first = 0;
  const Api& api = lane.api();
  if (api.cuMemcpyBatchAsync13 != nullptr) {
    return lane.Check(
        api.cuMemcpyBatchAsync13(to.data(), from.data(), sizes.data(), pieces.size(), &attributes,
                                 &first, /*attribute_count=*/1, lane.stream()),
        "cuMemcpyBatchAsync");
  }
  size_t failed = 0;
  return lane.Check(
      api.cuMemcpyBatchAsync12(to.data(), from.data(), sizes.data(), pieces.size(), &attributes,
                               &first, /*attribute_count=*/1, &failed, lane.stream()),
      "cuMemcpyBatchAsync");
}

absl::Status CopyEach(Lane& lane, std::span<const CopyPiece> pieces) {
  for (const CopyPiece& piece : pieces) {
    KVPOOL_RETURN_IF_ERROR(
        lane.Check(lane.api().cuMemcpyAsync(piece.to, piece.from, piece.size, lane.stream()),
                   "cuMemcpyAsync"));
  }
  return absl::OkStatus();
}

absl::Status Enqueue(Lane& lane, std::span<const CopyPiece> pieces) {
  const Sizes sizes = SizesOf(pieces);
  if (lane.kernels() != nullptr && pieces.size() >= kKernelPieces &&
      sizes.sum / pieces.size() < kEngineBytes) {
    return lane.kernels()->Copy(lane.stream(), pieces.data(), pieces.size(), sizes.max);
  }
  const bool has_batch =
      lane.api().cuMemcpyBatchAsync12 != nullptr || lane.api().cuMemcpyBatchAsync13 != nullptr;
  if (has_batch && pieces.size() > 1) return CopyBatch(lane, pieces);
  return CopyEach(lane, pieces);
}

}  // namespace

absl::Status CopyPieces(Lane& lane, const Staging::Half& half, size_t count) {
  if (count == 0) return absl::OkStatus();
  KVPOOL_RETURN_IF_ERROR(Enqueue(lane, std::span(half.copies, count)));
  return lane.staging().Use(half, lane.stream());
}

}  // namespace kvpool::cuda
