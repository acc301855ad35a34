#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/device/cuda/device_context.h"
#include "core/device/cuda/kernel_pieces.h"

namespace kvpool::cuda {

// Staging is pinned host memory, which the device reaches by itself, in two halves: while it works
// with one, the host works with the other. Each half is some bytes and a list of pieces. Needs the
// context to be current, but for its end. Not thread-safe.
class Staging {
 public:
  // What the copy engines move at full speed; two of them for each of a device's lanes is little.
  static constexpr size_t kHalfBytes = size_t{4} << 20;
  // Of pieces of 2 KiB, as many as fill a half.
  static constexpr size_t kHalfPieces = 2048;

  struct Half {
    std::byte* bytes = nullptr;   // kHalfBytes.
    CopyPiece* copies = nullptr;  // kHalfPieces, in the same memory as
    FillPiece* fills = nullptr;   // kHalfPieces, and
    SumPiece* sums = nullptr;     // kHalfPieces.
    Event done = nullptr;         // Reached when the device is done with the half.
  };

  // Errors as Driver::ToStatus says.
  static absl::StatusOr<std::unique_ptr<Staging>> Create(std::shared_ptr<DeviceContext> context);
  ~Staging();

  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // The other half than last time, once the device is done with it.
  absl::StatusOr<Half*> Next();
  // What the stream was given so far is what the device has to do with `half`.
  absl::Status Use(const Half& half, Stream stream);
  // Waits until it is done.
  absl::Status Await(const Half& half);

 private:
  explicit Staging(std::shared_ptr<DeviceContext> context) : context_(std::move(context)) {}

  absl::Status Make(Half& half);

  const std::shared_ptr<DeviceContext> context_;
  std::array<Half, 2> halves_;
  size_t next_ = 0;
};

}  // namespace kvpool::cuda
