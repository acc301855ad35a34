#include "tests/gpu/questions/gpu.h"

#include <dlfcn.h>

#include <utility>

#include "absl/strings/str_cat.h"

#include "core/status_macros.h"
#include "tests/gpu/questions/question.h"

namespace kvpool::questions {

absl::StatusOr<std::unique_ptr<Gpu>> Gpu::Open() {
  KVPOOL_ASSIGN_OR_RETURN(auto driver, cuda::Driver::Load(cuda::DriverLibrary()));
  KVPOOL_ASSIGN_OR_RETURN(const cuda::DeviceEntry entry, cuda::FindDevice(*driver, "cuda:0"));
  std::unique_ptr<Gpu> gpu(new Gpu(driver));
  KVPOOL_ASSIGN_OR_RETURN(gpu->context_, cuda::DeviceContext::Retain(driver, entry));
  gpu->scope_ = std::make_unique<cuda::DeviceContext::Scope>(*gpu->context_);
  KVPOOL_RETURN_IF_ERROR(gpu->scope_->status());
  KVPOOL_RETURN_IF_ERROR(gpu->context_->Check(
      gpu->api().cuStreamCreateWithPriority(&gpu->stream_, cuda::kStreamNonBlocking, 0),
      "cuStreamCreateWithPriority"));
  return gpu;
}

std::unique_ptr<Gpu> Gpu::OpenOrSay() {
  auto gpu = Open();
  if (gpu.ok()) return *std::move(gpu);
  Say(gpu.status().message());
  return nullptr;
}

Gpu::~Gpu() {
  if (stream_ != nullptr) api().cuStreamDestroy(stream_);
}

std::string Gpu::Text(Result result) const {
  if (result == Result::kSuccess) return "0";
  const char* name = nullptr;
  const char* text = nullptr;
  api().cuGetErrorName(result, &name);
  api().cuGetErrorString(result, &text);
  return absl::StrCat(static_cast<int>(result), " ", name == nullptr ? "unknown" : name, " (",
                      text == nullptr ? "" : text, ")");
}

Result Gpu::Read(DevicePointer from, void* to, uint64_t size_bytes) const {
  const Result result =
      api().cuMemcpyAsync(reinterpret_cast<DevicePointer>(to), from, size_bytes, stream_);
  return result == Result::kSuccess ? Synchronize() : result;
}

Result Gpu::Write(DevicePointer to, const void* from, uint64_t size_bytes) const {
  const Result result =
      api().cuMemcpyAsync(to, reinterpret_cast<DevicePointer>(from), size_bytes, stream_);
  return result == Result::kSuccess ? Synchronize() : result;
}

Result Gpu::Fill(DevicePointer to, uint8_t value, uint64_t size_bytes) const {
  const Result result = api().cuMemsetD8Async(to, value, size_bytes, stream_);
  return result == Result::kSuccess ? Synchronize() : result;
}

uint64_t Gpu::FreeBytes() const {
  size_t free = 0;
  size_t total = 0;
  return api().cuMemGetInfo(&free, &total) == Result::kSuccess ? free : 0;
}

void* FindSymbol(const char* name) {
  // The one that is loaded already, which is never unloaded.
  static void* const library = dlopen(cuda::DriverLibrary().c_str(), RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : dlsym(library, name);
}

}  // namespace kvpool::questions
