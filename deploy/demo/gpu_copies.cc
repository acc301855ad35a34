#include "deploy/demo/gpu_copies.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "core/device/cuda/cuda_abi.h"
#include "core/status_macros.h"

namespace kvpool::demo {
namespace {

using cuda::Result;

absl::Status ToStatus(Result result, const char* call) {
  if (result == Result::kSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, " failed: ", static_cast<int>(result)));
}

// The calls, as any driver has them, and a stream of the first device's.
struct Driver {
  Result (*init)(unsigned int flags);
  Result (*retain)(cuda::Context* context, cuda::Ordinal device);
  Result (*push)(cuda::Context context);
  Result (*pop)(cuda::Context* context);
  Result (*create_stream)(cuda::Stream* stream, unsigned int flags, int priority);
  Result (*to_device)(cuda::DevicePointer to, const void* from, size_t size, cuda::Stream stream);
  Result (*to_host)(void* to, cuda::DevicePointer from, size_t size, cuda::Stream stream);
  Result (*synchronize)(cuda::Stream stream);
  cuda::Context context = nullptr;
  cuda::Stream stream = nullptr;
};

template <typename Call>
absl::Status Find(void* library, const char* name, Call& call) {
  call = reinterpret_cast<Call>(dlsym(library, name));
  if (call != nullptr) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the CUDA driver has no ", name));
}

absl::StatusOr<Driver> Load() {
  const char* const named = std::getenv("KVPOOL_LIBCUDA");
  const char* const path = named != nullptr ? named : "libcuda.so.1";
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::InternalError(absl::StrCat("there is no ", path));
  Driver driver{};
  KVPOOL_RETURN_IF_ERROR(Find(library, "cuInit", driver.init));
  KVPOOL_RETURN_IF_ERROR(Find(library, "cuDevicePrimaryCtxRetain", driver.retain));
  KVPOOL_RETURN_IF_ERROR(Find(library, "cuCtxPushCurrent_v2", driver.push));
  KVPOOL_RETURN_IF_ERROR(Find(library, "cuCtxPopCurrent_v2", driver.pop));
  KVPOOL_RETURN_IF_ERROR(Find(library, "cuStreamCreateWithPriority", driver.create_stream));
  KVPOOL_RETURN_IF_ERROR(Find(library, "cuMemcpyHtoDAsync_v2", driver.to_device));
  KVPOOL_RETURN_IF_ERROR(Find(library, "cuMemcpyDtoHAsync_v2", driver.to_host));
  KVPOOL_RETURN_IF_ERROR(Find(library, "cuStreamSynchronize", driver.synchronize));
  KVPOOL_RETURN_IF_ERROR(ToStatus(driver.init(0), "cuInit"));
  KVPOOL_RETURN_IF_ERROR(ToStatus(driver.retain(&driver.context, 0), "cuDevicePrimaryCtxRetain"));
  KVPOOL_RETURN_IF_ERROR(ToStatus(driver.push(driver.context), "cuCtxPushCurrent"));
  constexpr unsigned int kNonBlocking = 1;
  const Result made = driver.create_stream(&driver.stream, kNonBlocking, 0);
  driver.pop(nullptr);
  KVPOOL_RETURN_IF_ERROR(ToStatus(made, "cuStreamCreateWithPriority"));
  return driver;
}

// `copy` puts one copy on the stream.
template <typename Copy>
absl::Status Run(const char* call, Copy copy) {
  static const absl::StatusOr<Driver> driver = Load();
  KVPOOL_RETURN_IF_ERROR(driver.status());
  KVPOOL_RETURN_IF_ERROR(ToStatus(driver->push(driver->context), "cuCtxPushCurrent"));
  absl::Status status = ToStatus(copy(*driver), call);
  status.Update(ToStatus(driver->synchronize(driver->stream), "cuStreamSynchronize"));
  driver->pop(nullptr);
  return status;
}

cuda::DevicePointer AddressOf(const void* pointer) {
  return reinterpret_cast<cuda::DevicePointer>(pointer);
}

}  // namespace

absl::Status CopyToGpu(std::span<const std::byte> from, void* to) {
  return Run("cuMemcpyHtoDAsync", [&](const Driver& driver) {
    return driver.to_device(AddressOf(to), from.data(), from.size(), driver.stream);
  });
}

absl::Status CopyFromGpu(const void* from, std::span<std::byte> to) {
  return Run("cuMemcpyDtoHAsync", [&](const Driver& driver) {
    return driver.to_host(to.data(), AddressOf(from), to.size(), driver.stream);
  });
}

}  // namespace kvpool::demo
