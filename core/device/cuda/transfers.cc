#include "core/device/cuda/transfers.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

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
  ExtentCutter cutter(extents);
  while (true) {
    KVPOOL_ASSIGN_OR_RETURN(Staging::Half* const half, lane.staging().Next());
    size_t count = 0;
    uint64_t max_bytes = 0;
    cutter.Cut(~uint64_t{0}, Staging::kHalfPieces, [&](const ExtentPiece& piece) {
      half->fills[count++] = {
          .to = region.base() + extents[piece.extent].offset_bytes + piece.offset,
          .size = piece.size};
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

absl::Status CopyToHost(Lane& lane, const CudaRegion& source, std::span<std::byte> host,
                        std::span<const CopyExtent> extents) {
  // What is under way: a half, and where its bytes go, one after the other.
  struct Chunk {
    const Staging::Half* half = nullptr;
    std::vector<std::span<std::byte>> to;
  };
  Chunk last;
  const auto finish_last = [&]() -> absl::Status {
    if (last.half == nullptr) return absl::OkStatus();
    KVPOOL_RETURN_IF_ERROR(lane.staging().Await(*last.half));
    const std::byte* from = last.half->bytes;
    for (const std::span<std::byte> to : last.to) {
      std::memcpy(to.data(), from, to.size());
      from += to.size();
    }
    return absl::OkStatus();
  };
  ExtentCutter cutter(extents);
  while (true) {
    KVPOOL_ASSIGN_OR_RETURN(Staging::Half* const half, lane.staging().Next());
    Chunk next{.half = half, .to = {}};
    uint64_t at = AddressOf(half->bytes);
    cutter.Cut(Staging::kHalfBytes, Staging::kHalfPieces, [&](const ExtentPiece& piece) {
      const CopyExtent& extent = extents[piece.extent];
      half->copies[next.to.size()] = {
          .to = at, .from = source.base() + extent.source_bytes + piece.offset, .size = piece.size};
      next.to.push_back(host.subspan(extent.destination_bytes + piece.offset, piece.size));
      at += piece.size;
    });
    if (next.to.empty()) return finish_last();
    KVPOOL_RETURN_IF_ERROR(CopyPieces(lane, *half, next.to.size()));
    KVPOOL_RETURN_IF_ERROR(finish_last());
    last = std::move(next);
  }
}

absl::Status CopyFromHost(Lane& lane, std::span<const std::byte> host,
                          const CudaRegion& destination, std::span<const CopyExtent> extents) {
  ExtentCutter cutter(extents);
  while (true) {
    KVPOOL_ASSIGN_OR_RETURN(Staging::Half* const half, lane.staging().Next());
    size_t count = 0;
    std::byte* at = half->bytes;
    cutter.Cut(Staging::kHalfBytes, Staging::kHalfPieces, [&](const ExtentPiece& piece) {
      const CopyExtent& extent = extents[piece.extent];
      const auto from = host.subspan(extent.source_bytes + piece.offset, piece.size);
      std::memcpy(at, from.data(), from.size());
      half->copies[count++] = {.to = destination.base() + extent.destination_bytes + piece.offset,
                               .from = AddressOf(at),
                               .size = piece.size};
      at += piece.size;
    });
    if (count == 0) return absl::OkStatus();
    KVPOOL_RETURN_IF_ERROR(CopyPieces(lane, *half, count));
  }
}

}  // namespace kvpool::cuda
