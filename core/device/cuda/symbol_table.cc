#include "core/device/cuda/symbol_table.h"

#include <dlfcn.h>

#include <cstring>

#include "absl/strings/str_cat.h"

#include "core/error.h"

namespace kvpool::cuda {
namespace {

// Which of the versions of cuMemcpyBatchAsync to ask for: one, by what the driver is.
constexpr int kBatchSince = 12'080;
constexpr int kNewBatchSince = 13'000;

// A data pointer is a function pointer to POSIX, though not to C++.
template <typename Call>
void SetCall(void* symbol, Call& call) {
  static_assert(sizeof(call) == sizeof(symbol));
  std::memcpy(static_cast<void*>(&call), static_cast<const void*>(&symbol), sizeof(call));
}

}  // namespace

absl::StatusOr<SymbolTable> SymbolTable::Open(void* handle, const std::string& library) {
  GetProcAddress* get = nullptr;
  OldGetProcAddress* old_get = nullptr;
  SetCall(dlsym(handle, "cuGetProcAddress_v2"), get);
  SetCall(dlsym(handle, "cuGetProcAddress"), old_get);
  if (get == nullptr && old_get == nullptr) {
    return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDevice},
                     absl::StrCat("'", library,
                                  "' has no cuGetProcAddress: it is no CUDA driver, or older than "
                                  "11.4 (driver 470)"));
  }
  return SymbolTable(get, old_get);
}

template <typename Call>
bool SymbolTable::Find(const char* name, int version, Call& call) const {
  void* symbol = nullptr;
  const Result result = get_ != nullptr
                            ? get_(name, &symbol, version, /*flags=*/0, /*symbol_status=*/nullptr)
                            : old_get_(name, &symbol, version, /*flags=*/0);
  // A call that the driver has not is a success without an address, or an error where the
  // version is above its own.
  if (result != Result::kSuccess) symbol = nullptr;
  SetCall(symbol, call);
  return symbol != nullptr;
}

absl::string_view SymbolTable::FindFirst(Api& api) const {
  if (!Find("cuGetErrorName", 6000, api.cuGetErrorName)) return "cuGetErrorName";
  if (!Find("cuGetErrorString", 6000, api.cuGetErrorString)) return "cuGetErrorString";
  if (!Find("cuDriverGetVersion", 2020, api.cuDriverGetVersion)) return "cuDriverGetVersion";
  return Find("cuInit", 2000, api.cuInit) ? "" : "cuInit";
}

absl::string_view SymbolTable::FindAll(int driver_version, Api& api) const {
  absl::string_view missing;
  const auto find = [&](const char* name, int version, auto& call) {
    if (!Find(name, version, call) && missing.empty()) missing = name;
  };
  find("cuDeviceGet", 2000, api.cuDeviceGet);
  find("cuDeviceGetCount", 2000, api.cuDeviceGetCount);
  find("cuDeviceGetName", 2000, api.cuDeviceGetName);
  find("cuDeviceGetUuid", 11040, api.cuDeviceGetUuid);
  find("cuDeviceGetAttribute", 2000, api.cuDeviceGetAttribute);
  find("cuDevicePrimaryCtxRetain", 7000, api.cuDevicePrimaryCtxRetain);
  find("cuDevicePrimaryCtxRelease", 11000, api.cuDevicePrimaryCtxRelease);
  find("cuDevicePrimaryCtxSetFlags", 11000, api.cuDevicePrimaryCtxSetFlags);
  find("cuCtxPushCurrent", 4000, api.cuCtxPushCurrent);
  find("cuCtxPopCurrent", 4000, api.cuCtxPopCurrent);
  find("cuMemGetInfo", 3020, api.cuMemGetInfo);
  find("cuMemAlloc", 3020, api.cuMemAlloc);
  find("cuMemFree", 3020, api.cuMemFree);
  find("cuMemGetAddressRange", 3020, api.cuMemGetAddressRange);
  find("cuMemHostAlloc", 2020, api.cuMemHostAlloc);
  find("cuMemFreeHost", 2000, api.cuMemFreeHost);
  find("cuMemsetD8Async", 3020, api.cuMemsetD8Async);
  find("cuMemsetD2D8Async", 3020, api.cuMemsetD2D8Async);
  find("cuMemcpyAsync", 4000, api.cuMemcpyAsync);
  find("cuMemcpyPeerAsync", 4000, api.cuMemcpyPeerAsync);
  find("cuStreamCreateWithPriority", 5050, api.cuStreamCreateWithPriority);
  find("cuStreamDestroy", 4000, api.cuStreamDestroy);
  find("cuStreamSynchronize", 2000, api.cuStreamSynchronize);
  find("cuThreadExchangeStreamCaptureMode", 10010, api.cuThreadExchangeStreamCaptureMode);
  find("cuEventCreate", 2000, api.cuEventCreate);
  find("cuEventRecord", 2000, api.cuEventRecord);
  find("cuEventQuery", 2000, api.cuEventQuery);
  find("cuEventSynchronize", 2000, api.cuEventSynchronize);
  find("cuEventDestroy", 4000, api.cuEventDestroy);
  find("cuModuleLoadData", 2000, api.cuModuleLoadData);
  find("cuModuleGetFunction", 2000, api.cuModuleGetFunction);
  find("cuModuleUnload", 2000, api.cuModuleUnload);
  find("cuLaunchKernel", 4000, api.cuLaunchKernel);
  find("cuIpcGetMemHandle", 4010, api.cuIpcGetMemHandle);
  find("cuIpcOpenMemHandle", 11000, api.cuIpcOpenMemHandle);
  find("cuIpcCloseMemHandle", 4010, api.cuIpcCloseMemHandle);

  Find("cuDeviceGetUuid", 9020, api.cuDeviceGetUuidOfGpu);
  api.cuMemcpyBatchAsync12 = nullptr;
  api.cuMemcpyBatchAsync13 = nullptr;
  if (driver_version >= kNewBatchSince) {
    Find("cuMemcpyBatchAsync", kNewBatchSince, api.cuMemcpyBatchAsync13);
  } else if (driver_version >= kBatchSince) {
    Find("cuMemcpyBatchAsync", kBatchSince, api.cuMemcpyBatchAsync12);
  }
  return missing;
}

}  // namespace kvpool::cuda
