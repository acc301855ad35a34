#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tests/fakecuda/contexts.h"

namespace fakecuda {

// x, y and z of a grid or a block.
struct Extent3 {
  unsigned int x = 1;
  unsigned int y = 1;
  unsigned int z = 1;
};

// A kernel of the project's that the CPU can run: compiled from the same source as the real one.
struct Kernel {
  std::string name;
  std::vector<size_t> parameter_sizes;
  // Runs every thread of the grid, in order. kIllegalAddress where one touches what is neither
  // device memory nor pinned; what threads before it did stays.
  std::function<Result(Extent3 grid, Extent3 block, std::span<void* const> parameters)> run;
};

// Null where there is none of that name.
const Kernel* FindKernel(const std::string& name);

// A loaded module: its PTX, as text.
class ModuleState {
 public:
  explicit ModuleState(std::string ptx) : ptx_(std::move(ptx)) {}

  // Whether `text` can be PTX at all.
  static bool IsPtx(const std::string& text);

  // The sizes of the parameters of the entry of that name; false where there is no such entry.
  bool FindEntry(const std::string& name, std::vector<size_t>* parameter_sizes) const;

 private:
  const std::string ptx_;
};

}  // namespace fakecuda
