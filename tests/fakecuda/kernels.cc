#include "tests/fakecuda/kernels.h"

#include <cstring>
#include <regex>

#include "tests/fakecuda/address_space.h"

// What CUDA's compiler gives a kernel, each in the thread that runs it.
#define __global__
#define __device__
static thread_local fakecuda::Extent3 blockIdx;   // NOLINT
static thread_local fakecuda::Extent3 threadIdx;  // NOLINT
static thread_local fakecuda::Extent3 blockDim;   // NOLINT
static thread_local fakecuda::Extent3 gridDim;    // NOLINT

namespace kvpool::cuda {
namespace {

// Thrown by a kernel's access to what the device cannot touch.
struct Fault {};

template <typename T>
T* At(uint64_t address, uint64_t count) {
  std::byte* const bytes = fakecuda::TheAddressSpace().TranslateAny(address, count * sizeof(T));
  if (bytes == nullptr) throw Fault();
  return reinterpret_cast<T*>(bytes);
}

}  // namespace
}  // namespace kvpool::cuda

#include "core/device/cuda/kernels.cu"

namespace fakecuda {
namespace {

template <typename T>
T ValueAt(const void* parameter) {
  T value;
  std::memcpy(&value, parameter, sizeof(value));
  return value;
}

template <typename... Parameters, size_t... kIndices>
void CallOnce(void (*kernel)(Parameters...), std::span<void* const> parameters,
              std::index_sequence<kIndices...> /*indices*/) {
  kernel(ValueAt<Parameters>(parameters[kIndices])...);
}

template <typename... Parameters>
Kernel KernelOf(std::string name, void (*kernel)(Parameters...)) {
  return {.name = std::move(name),
          .parameter_sizes = {sizeof(Parameters)...},
          .run = [kernel](Extent3 grid, Extent3 block, std::span<void* const> parameters) {
            gridDim = grid;
            blockDim = block;
            blockIdx = {0, 0, 0};
            threadIdx = {0, 0, 0};
            try {
              for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) {
                for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y) {
                  for (threadIdx.x = 0; threadIdx.x < block.x; ++threadIdx.x) {
                    CallOnce(kernel, parameters, std::index_sequence_for<Parameters...>());
                  }
                }
              }
            } catch (const kvpool::cuda::Fault&) {
              return Result::kIllegalAddress;
            }
            return Result::kSuccess;
          }};
}

}  // namespace

const Kernel* FindKernel(const std::string& name) {
  static const auto& kernels = *new std::vector<Kernel>{
      KernelOf("kvpool_fill", kvpool::cuda::kvpool_fill),
      KernelOf("kvpool_copy", kvpool::cuda::kvpool_copy),
      KernelOf("kvpool_sum", kvpool::cuda::kvpool_sum),
  };
  for (const Kernel& kernel : kernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

bool ModuleState::IsPtx(const std::string& text) {
  return text.find(".version") != std::string::npos && text.find(".target") != std::string::npos;
}

bool ModuleState::FindEntry(const std::string& name, std::vector<size_t>* parameter_sizes) const {
  const std::string opening = ".entry " + name + "(";
  const size_t begin = ptx_.find(opening);
  if (begin == std::string::npos) return false;
  const size_t end = ptx_.find(')', begin);
  if (end == std::string::npos) return false;
  const std::string list = ptx_.substr(begin, end - begin);
  static const std::regex kParameter(R"(\.param \.[a-z](\d+) )");
  parameter_sizes->clear();
  for (std::sregex_iterator it(list.begin(), list.end(), kParameter), last; it != last; ++it) {
    parameter_sizes->push_back(std::stoul((*it)[1].str()) / 8);
  }
  return true;
}

}  // namespace fakecuda
