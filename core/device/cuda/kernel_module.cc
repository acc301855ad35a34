#include "core/device/cuda/kernel_module.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/check.h"
#include "core/status_macros.h"

namespace kvpool::cuda {
namespace {

constexpr uint64_t kBlockThreads = 256;

// How much of a piece one block of threads moves before another is put beside it: 4 words of 16
// bytes a thread.
constexpr uint64_t kBlockBytes = kBlockThreads * 16 * 4;

// How many blocks are enough to keep any GPU busy: some 150 multiprocessors of 8 blocks, thrice.
constexpr uint64_t kEnoughBlocks = 4096;

// How many blocks share a piece: as many as it is long, no more than are needed in all.
uint64_t BlocksOfPiece(uint64_t count, uint64_t max_bytes) {
  const uint64_t by_length = (max_bytes + kBlockBytes - 1) / kBlockBytes;
  return std::clamp<uint64_t>(by_length, 1, std::max<uint64_t>(1, kEnoughBlocks / count));
}

// Where the device finds what is in pinned host memory: at the same address.
uint64_t AddressOf(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace

absl::StatusOr<std::unique_ptr<KernelModule>> KernelModule::Load(
    std::shared_ptr<DeviceContext> context) {
  std::unique_ptr<KernelModule> module(new KernelModule(std::move(context)));
  DeviceContext& device = *module->context_;
  KVPOOL_RETURN_IF_ERROR(device.Check(device.api().cuModuleLoadData(&module->module_, kKernelsPtx),
                                      "cuModuleLoadData"));
  KVPOOL_RETURN_IF_ERROR(module->Find("kvpool_fill", module->fill_));
  KVPOOL_RETURN_IF_ERROR(module->Find("kvpool_copy", module->copy_));
  KVPOOL_RETURN_IF_ERROR(module->Find("kvpool_sum", module->sum_));
  return module;
}

KernelModule::~KernelModule() {
  const DeviceContext::Scope scope(*context_);
  if (module_ != nullptr && scope.status().ok()) context_->api().cuModuleUnload(module_);
}

absl::Status KernelModule::Fill(Stream stream, const FillPiece* pieces, uint64_t count,
                                uint64_t max_bytes, uint8_t value) const {
  uint64_t list = AddressOf(pieces);
  uint32_t wide_value = value;
  std::array<void*, 2> parameters = {&list, &wide_value};
  return Launch(fill_, count, BlocksOfPiece(count, max_bytes), stream, parameters.data());
}

absl::Status KernelModule::Copy(Stream stream, const CopyPiece* pieces, uint64_t count,
                                uint64_t max_bytes) const {
  uint64_t list = AddressOf(pieces);
  std::array<void*, 1> parameters = {&list};
  return Launch(copy_, count, BlocksOfPiece(count, max_bytes), stream, parameters.data());
}

absl::Status KernelModule::Sum(Stream stream, const SumPiece* pieces, uint64_t count,
                               PartSums* results, uint64_t part_count, ElementFormat format) const {
  uint64_t list = AddressOf(pieces);
  uint64_t result_list = AddressOf(results);
  auto wide_format = static_cast<uint32_t>(format);
  std::array<void*, 5> parameters = {&list, &count, &result_list, &part_count, &wide_format};
  return Launch(sum_, (part_count + kBlockThreads - 1) / kBlockThreads, 1, stream,
                parameters.data());
}

absl::Status KernelModule::Find(const char* name, Function& function) const {
  return context_->Check(context_->api().cuModuleGetFunction(&function, module_, name),
                         "cuModuleGetFunction");
}

absl::Status KernelModule::Launch(Function function, uint64_t grid_x, uint64_t grid_y,
                                  Stream stream, void** parameters) const {
  KVPOOL_CHECK(grid_x > 0 && grid_x < (uint64_t{1} << 31));
  return context_->Check(
      context_->api().cuLaunchKernel(function, static_cast<unsigned int>(grid_x),
                                     static_cast<unsigned int>(grid_y), 1, kBlockThreads, 1, 1,
                                     /*shared_bytes=*/0, stream, parameters, /*extra=*/nullptr),
      "cuLaunchKernel");
}

}  // namespace kvpool::cuda
