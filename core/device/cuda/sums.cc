#include "core/device/cuda/sums.h"

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "core/device/crc_register.h"
#include "core/device/cuda/extent_cutter.h"
#include "core/status_macros.h"

namespace kvpool::cuda {
namespace {

// Half the staging memory takes that many results. Each piece may have a part that is not whole.
constexpr uint64_t kMaxParts = Staging::kHalfBytes / sizeof(PartSums);
constexpr uint64_t kMaxBytes = (kMaxParts - Staging::kHalfPieces) * kPartBytes;
static_assert(kMaxBytes % sizeof(uint32_t) == 0, "pieces are cut there, at a whole word");

ElementFormat FormatOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp32:
      return ElementFormat::kFp32;
    case Dtype::kFp16:
      return ElementFormat::kFp16;
    case Dtype::kBf16:
      return ElementFormat::kBf16;
    case Dtype::kFp8:
      return ElementFormat::kFp8;
    case Dtype::kNvfp4:
    case Dtype::kTurbo8:
    case Dtype::kTurbo4:
    case Dtype::kTurbo3:
    case Dtype::kTurbo2:
    case Dtype::kRaw:
      return ElementFormat::kNone;
  }
  return ElementFormat::kNone;
}

uint64_t PartsOf(uint64_t size_bytes) { return (size_bytes + kPartBytes - 1) / kPartBytes; }

// Puts the next part's sums, of `size_bytes`, behind what `into` has; its crc32c is a register.
void Join(const PartSums& part, uint64_t size_bytes, ExtentSums& into) {
  into.sum += part.sum;
  into.sum_of_squares += part.sum_of_squares;
  into.sum_of_absolutes += part.sum_of_absolutes;
  into.nan_count += part.nan_count;
  into.crc32c = JoinCrc(into.crc32c, part.crc, size_bytes);
}

// Puts what a half's pieces came to behind what their extents have.
void JoinAll(std::span<const ExtentPiece> pieces, std::span<const PartSums> parts,
             std::span<ExtentSums> results) {
  auto part = parts.begin();
  for (const ExtentPiece& piece : pieces) {
    for (uint64_t done = 0; done < piece.size; done += kPartBytes) {
      Join(*part++, std::min(kPartBytes, piece.size - done), results[piece.extent]);
    }
  }
}

}  // namespace

absl::Status SumExtents(Lane& lane, const CudaRegion& region, std::span<const Extent> extents,
                        Dtype dtype, std::span<ExtentSums> results) {
  KVPOOL_CHECK(lane.kernels() != nullptr && results.size() == extents.size());
  for (const Extent& extent : extents) {
    KVPOOL_CHECK((extent.offset_bytes | extent.size_bytes) % kSumAlignment == 0);
  }
  std::ranges::fill(results, ExtentSums{});
  ExtentCutter cutter(extents);
  std::vector<ExtentPiece> pieces;
  while (true) {
    KVPOOL_ASSIGN_OR_RETURN(Staging::Half* const half, lane.staging().Next());
    pieces.clear();
    uint64_t part_count = 0;
    cutter.Cut(kMaxBytes, Staging::kHalfPieces, [&](const ExtentPiece& piece) {
      half->sums[pieces.size()] = {
          .from = region.base() + extents[piece.extent].offset_bytes + piece.offset,
          .size = piece.size,
          .first_part = part_count};
      pieces.push_back(piece);
      part_count += PartsOf(piece.size);
    });
    if (pieces.empty()) break;
    auto* const parts = reinterpret_cast<PartSums*>(half->bytes);
    KVPOOL_RETURN_IF_ERROR(lane.kernels()->Sum(lane.stream(), half->sums, pieces.size(), parts,
                                               part_count, FormatOf(dtype)));
    KVPOOL_RETURN_IF_ERROR(lane.staging().Use(*half, lane.stream()));
    KVPOOL_RETURN_IF_ERROR(lane.staging().Await(*half));
    JoinAll(pieces, {parts, part_count}, results);
  }
  for (size_t i = 0; i < extents.size(); ++i) {
    results[i].crc32c = FinishCrc(results[i].crc32c, extents[i].size_bytes);
  }
  return absl::OkStatus();
}

}  // namespace kvpool::cuda
