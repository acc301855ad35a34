#include "core/device/cuda/transfers.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/device/cuda/extent_cutter.h"
#include "core/device/cuda/piece_copier.h"
#include "core/status_macros.h"

namespace kvpool::cuda {
namespace {

uint64_t AddressOf(const std::byte* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// How many extents from the first on have its size and lie at one distance from each other.
size_t CountRows(std::span<const Extent> extents) {
  size_t count = 1;
  while (count < extents.size()) {
    const Extent& last = extents[count - 1];
    const Extent& next = extents[count];
    if (next.size_bytes != last.size_bytes) break;
    if (next.offset_bytes < last.offset_bytes + last.size_bytes) break;
    if (next.offset_bytes - last.offset_bytes !=
        extents[1].offset_bytes - extents[0].offset_bytes) {
      break;
    }
    ++count;
  }
  return count;
}

// By the driver's own calls: the same side of many layers is one, in two dimensions.
absl::Status FillRows(Lane& lane, DevicePointer base, std::span<const Extent> extents,
                      uint8_t value) {
  const Api& api = lane.api();
  while (!extents.empty()) {
    const Extent& first = extents.front();
    const size_t rows = CountRows(extents);
    const DevicePointer to = base + first.offset_bytes;
    if (first.size_bytes > 0 && rows > 1) {
      const uint64_t pitch = extents[1].offset_bytes - first.offset_bytes;
      KVPOOL_RETURN_IF_ERROR(
          lane.Check(api.cuMemsetD2D8Async(to, pitch, value, first.size_bytes, rows, lane.stream()),
                     "cuMemsetD2D8Async"));
    } else if (first.size_bytes > 0) {
      KVPOOL_RETURN_IF_ERROR(lane.Check(
          api.cuMemsetD8Async(to, value, first.size_bytes, lane.stream()), "cuMemsetD8Async"));
    }
    extents = extents.subspan(rows);
  }
  return absl::OkStatus();
}

absl::Status CopyBetweenDevices(Lane& lane, const CudaRegion& source, const CudaRegion& destination,
                                std::span<const CopyExtent> extents) {
  for (const CopyExtent& extent : extents) {
    if (extent.size_bytes == 0) continue;
    KVPOOL_RETURN_IF_ERROR(lane.Check(
        lane.api().cuMemcpyPeerAsync(destination.base() + extent.destination_bytes,
                                     destination.context().handle(),
                                     source.base() + extent.source_bytes, source.context().handle(),
                                     extent.size_bytes, lane.stream()),
        "cuMemcpyPeerAsync"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FillExtents(Lane& lane, const CudaRegion& region, std::span<const Extent> extents,
                         uint8_t value) {
  if (lane.kernels() == nullptr || extents.size() < kKernelPieces) {
    return FillRows(lane, region.base(), extents, value);
  }
  ExtentCutter cutter(extents, region.base());
  while (true) {
    KVPOOL_ASSIGN_OR_RETURN(Staging::Half* const half, lane.staging().Next());
    size_t count = 0;
    uint64_t max_bytes = 0;
    cutter.Cut(~uint64_t{0}, Staging::kHalfPieces, [&](ExtentCutter::Piece piece) {
      half->fills[count++] = {.to = piece.at, .size = piece.size};
      max_bytes = std::max(max_bytes, piece.size);
    });
    if (count == 0) return absl::OkStatus();
    KVPOOL_RETURN_IF_ERROR(
        lane.kernels()->Fill(lane.stream(), half->fills, count, max_bytes, value));
    KVPOOL_RETURN_IF_ERROR(lane.staging().Use(*half, lane.stream()));
  }
}

absl::Status CopyExtents(Lane& lane, const CudaRegion& source, const CudaRegion& destination,
                         std::span<const CopyExtent> extents) {
  if (source.context().handle() != destination.context().handle()) {
    return CopyBetweenDevices(lane, source, destination, extents);
  }
  while (!extents.empty()) {
    const auto some = extents.first(std::min(extents.size(), Staging::kHalfPieces));
    extents = extents.subspan(some.size());
    KVPOOL_ASSIGN_OR_RETURN(Staging::Half* const half, lane.staging().Next());
    size_t count = 0;
    for (const CopyExtent& extent : some) {
      if (extent.size_bytes == 0) continue;
      half->copies[count++] = {.to = destination.base() + extent.destination_bytes,
                               .from = source.base() + extent.source_bytes,
                               .size = extent.size_bytes};
    }
    KVPOOL_RETURN_IF_ERROR(CopyPieces(lane, *half, count));
  }
  return absl::OkStatus();
}

absl::Status ReadExtents(Lane& lane, const CudaRegion& region, std::span<const Extent> extents,
                         std::span<std::byte> bytes) {
  // What is under way: a half, and the bytes that it becomes.
  struct Chunk {
    const Staging::Half* half = nullptr;
    std::span<std::byte> to;
  };
  std::optional<Chunk> last;
  const auto finish_last = [&]() -> absl::Status {
    if (!last.has_value()) return absl::OkStatus();
    KVPOOL_RETURN_IF_ERROR(lane.staging().Await(*last->half));
    std::memcpy(last->to.data(), last->half->bytes, last->to.size());
    return absl::OkStatus();
  };
  ExtentCutter cutter(extents, region.base());
  while (true) {
    KVPOOL_ASSIGN_OR_RETURN(Staging::Half* const half, lane.staging().Next());
    size_t count = 0;
    uint64_t at = AddressOf(half->bytes);
    const uint64_t size =
        cutter.Cut(Staging::kHalfBytes, Staging::kHalfPieces, [&](ExtentCutter::Piece piece) {
          half->copies[count++] = {.to = at, .from = piece.at, .size = piece.size};
          at += piece.size;
        });
    if (size == 0) return finish_last();
    KVPOOL_RETURN_IF_ERROR(CopyPieces(lane, *half, count));
    KVPOOL_RETURN_IF_ERROR(finish_last());
    last = Chunk{.half = half, .to = bytes.first(size)};
    bytes = bytes.subspan(size);
  }
}

absl::Status WriteExtents(Lane& lane, const CudaRegion& region, std::span<const Extent> extents,
                          std::span<const std::byte> bytes) {
  ExtentCutter cutter(extents, region.base());
  while (true) {
    KVPOOL_ASSIGN_OR_RETURN(Staging::Half* const half, lane.staging().Next());
    size_t count = 0;
    uint64_t at = AddressOf(half->bytes);
    const uint64_t size =
        cutter.Cut(Staging::kHalfBytes, Staging::kHalfPieces, [&](ExtentCutter::Piece piece) {
          half->copies[count++] = {.to = piece.at, .from = at, .size = piece.size};
          at += piece.size;
        });
    if (size == 0) return absl::OkStatus();
    std::memcpy(half->bytes, bytes.data(), size);
    bytes = bytes.subspan(size);
    KVPOOL_RETURN_IF_ERROR(CopyPieces(lane, *half, count));
  }
}

}  // namespace kvpool::cuda
