#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/device/cuda/device_context.h"
#include "core/device/cuda/kernel_pieces.h"

namespace kvpool::cuda {

// The PTX of the kernels (kernels.ptx), which the driver compiles for its GPU.
extern const char kKernelsPtx[];

// KernelModule is the project's kernels on one device. Lists of pieces and results are where the
// device can reach them, and stay until the stream has passed the launch. The calls need the
// context current in their thread. Immutable; thread-safe.
class KernelModule {
 public:
  // INTERNAL (DEVICE) where the driver cannot compile them, as without libnvidia-ptxjitcompiler:
  // what they do can be done without them, more slowly. Needs the context to be current.
  static absl::StatusOr<std::unique_ptr<KernelModule>> Load(std::shared_ptr<DeviceContext> context);
  ~KernelModule();

  KernelModule(const KernelModule&) = delete;
  KernelModule& operator=(const KernelModule&) = delete;

  // Sets every byte of `count` pieces, of at most `max_bytes` each. Requires 0 < count < 2^31.
  absl::Status Fill(Stream stream, const FillPiece* pieces, uint64_t count, uint64_t max_bytes,
                    uint8_t value) const;

  // Copies `count` pieces, of at most `max_bytes` each; from and to may be pinned host memory.
  absl::Status Copy(Stream stream, const CopyPiece* pieces, uint64_t count,
                    uint64_t max_bytes) const;

  // Adds up `part_count` parts of `count` pieces into as many results.
  absl::Status Sum(Stream stream, const SumPiece* pieces, uint64_t count, PartSums* results,
                   uint64_t part_count, ElementFormat format) const;

 private:
  explicit KernelModule(std::shared_ptr<DeviceContext> context) : context_(std::move(context)) {}

  absl::Status Find(const char* name, Function& function) const;
  // Launches blocks of kBlockThreads.
  absl::Status Launch(Function function, uint64_t grid_x, uint64_t grid_y, Stream stream,
                      void** parameters) const;

  const std::shared_ptr<DeviceContext> context_;
  Module module_ = nullptr;
  Function fill_ = nullptr;
  Function copy_ = nullptr;
  Function sum_ = nullptr;
};

}  // namespace kvpool::cuda
