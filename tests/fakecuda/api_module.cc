#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/fakecuda/api.h"
#include "tests/fakecuda/calls.h"
#include "tests/fakecuda/kernels.h"
#include "tests/fakecuda/streams.h"

namespace fakecuda {
namespace {

ObjectTable<ModuleState>& TheModules() {
  static auto& modules = *new ObjectTable<ModuleState>();
  return modules;
}

constexpr unsigned int kMaxGridSide = 65'535;  // Of y and z; x has 31 bits.
constexpr unsigned int kMaxGridWidth = 0x7FFF'FFFF;
constexpr unsigned int kMaxBlockThreads = 1024;

bool IsGrid(Extent3 grid, Extent3 block) {
  return grid.x > 0 && grid.x <= kMaxGridWidth && grid.y > 0 && grid.y <= kMaxGridSide &&
         grid.z > 0 && grid.z <= kMaxGridSide && block.x > 0 && block.y == 1 && block.z == 1 &&
         block.x <= kMaxBlockThreads;
}

}  // namespace

uint64_t ModuleCount() { return TheModules().All().size(); }

}  // namespace fakecuda

using namespace fakecuda;  // NOLINT

Result cuModuleLoadData(Module* module, const void* image) {
  return EnterInContext("cuModuleLoadData", [&](ContextState&) {
    std::string text = static_cast<const char*>(image);
    if (!ModuleState::IsPtx(text)) return Result::kInvalidPtx;
    auto* const state = new ModuleState(std::move(text));
    TheModules().Add(state);
    *module = reinterpret_cast<Module>(state);
    return Result::kSuccess;
  });
}

Result cuModuleGetFunction(Function* function, Module module, const char* name) {
  return EnterInContext("cuModuleGetFunction", [&](ContextState&) {
    const ModuleState* const state = TheModules().Find(module);
    if (state == nullptr) return Result::kInvalidHandle;
    std::vector<size_t> sizes;
    const Kernel* const kernel = FindKernel(name);
    if (kernel == nullptr || !state->FindEntry(name, &sizes)) return Result::kNotFound;
    // The text is of another source than the kernels here.
    if (sizes != kernel->parameter_sizes) return Result::kInvalidPtx;
    *function = reinterpret_cast<Function>(const_cast<Kernel*>(kernel));
    return Result::kSuccess;
  });
}

Result cuModuleUnload(Module module) {
  return Enter("cuModuleUnload", [&] {
    const std::unique_ptr<ModuleState> state(TheModules().Find(module));
    if (state == nullptr) return Result::kInvalidHandle;
    TheModules().Remove(state.get());
    return Result::kSuccess;
  });
}

Result cuLaunchKernel(Function function, unsigned int grid_x, unsigned int grid_y,
                      unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                      unsigned int block_z, unsigned int /*shared_bytes*/, Stream stream,
                      void** parameters, void** extra) {
  return EnterInContext("cuLaunchKernel", [&](ContextState&) {
    const auto* const kernel = reinterpret_cast<const Kernel*>(function);
    StreamState* const state = TheStreams().Find(stream);
    if (kernel == nullptr || state == nullptr) return Result::kInvalidHandle;
    const Extent3 grid{.x = grid_x, .y = grid_y, .z = grid_z};
    const Extent3 block{.x = block_x, .y = block_y, .z = block_z};
    if (extra != nullptr || !IsGrid(grid, block)) return Result::kInvalidValue;
    // The values are taken now; the caller's variables are gone when the kernel runs.
    std::vector<std::vector<std::byte>> values;
    for (size_t i = 0; i < kernel->parameter_sizes.size(); ++i) {
      const auto* begin = static_cast<const std::byte*>(parameters[i]);
      values.emplace_back(begin, begin + kernel->parameter_sizes[i]);
    }
    state->Enqueue([=, values = std::move(values)]() mutable {
      std::vector<void*> pointers;
      for (auto& value : values) pointers.push_back(value.data());
      return kernel->run(grid, block, pointers);
    });
    return Result::kSuccess;
  });
}
