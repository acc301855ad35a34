#include "core/device/cuda/staging.h"

#include <utility>

#include "core/status_macros.h"

namespace kvpool::cuda {

absl::StatusOr<std::unique_ptr<Staging>> Staging::Create(std::shared_ptr<DeviceContext> context) {
  std::unique_ptr<Staging> staging(new Staging(std::move(context)));
  for (Half& half : staging->halves_) KVPOOL_RETURN_IF_ERROR(staging->Make(half));
  return staging;
}

Staging::~Staging() {
  const DeviceContext::Scope scope(*context_);
  if (!scope.status().ok()) return;
  for (const Half& half : halves_) {
    if (half.bytes != nullptr) context_->api().cuMemFreeHost(half.bytes);
    if (half.done != nullptr) context_->api().cuEventDestroy(half.done);
  }
}

absl::Status Staging::Make(Half& half) {
  const Api& api = context_->api();
  void* memory = nullptr;
  constexpr size_t kListBytes = kHalfPieces * sizeof(CopyPiece);
  static_assert(sizeof(CopyPiece) >= sizeof(FillPiece) && sizeof(CopyPiece) >= sizeof(SumPiece));
  KVPOOL_RETURN_IF_ERROR(
      context_->Check(api.cuMemHostAlloc(&memory, kHalfBytes + kListBytes,
                                         kHostAllocPortable | kHostAllocDeviceMap),
                      "cuMemHostAlloc"));
  half.bytes = static_cast<std::byte*>(memory);
  // Whichever list is written whole before the device reads it.
  void* const list = half.bytes + kHalfBytes;
  half.copies = static_cast<CopyPiece*>(list);
  half.fills = static_cast<FillPiece*>(list);
  half.sums = static_cast<SumPiece*>(list);
  return context_->Check(api.cuEventCreate(&half.done, kEventBlockingSync | kEventDisableTiming),
                         "cuEventCreate");
}

absl::StatusOr<Staging::Half*> Staging::Next() {
  Half& half = halves_[next_];
  next_ = 1 - next_;
  KVPOOL_RETURN_IF_ERROR(Await(half));
  return &half;
}

absl::Status Staging::Use(const Half& half, Stream stream) {
  return context_->Check(context_->api().cuEventRecord(half.done, stream), "cuEventRecord");
}

absl::Status Staging::Await(const Half& half) {
  return context_->Check(context_->api().cuEventSynchronize(half.done), "cuEventSynchronize");
}

}  // namespace kvpool::cuda
