#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fakecuda/address_space.h"
#include "tests/fakecuda/api.h"
#include "tests/fakecuda/calls.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/fakecuda/settings.h"
#include "tests/fakecuda/streams.h"

namespace fakecuda {
namespace {

// A call by its base name, and the version of CUDA since which the declaration is this.
struct Symbol {
  std::string_view name;
  int since = 0;
  void* address = nullptr;
};

template <typename Call>
Symbol SymbolOf(std::string_view name, int since, Call* call) {
  return {.name = name, .since = since, .address = reinterpret_cast<void*>(call)};
}

const std::vector<Symbol>& Symbols() {
  static const auto& symbols = *new std::vector<Symbol>{
      SymbolOf("cuInit", 2000, cuInit),
      SymbolOf("cuDriverGetVersion", 2020, cuDriverGetVersion),
      SymbolOf("cuGetErrorName", 6000, cuGetErrorName),
      SymbolOf("cuGetErrorString", 6000, cuGetErrorString),
      SymbolOf("cuDeviceGet", 2000, cuDeviceGet),
      SymbolOf("cuDeviceGetCount", 2000, cuDeviceGetCount),
      SymbolOf("cuDeviceGetName", 2000, cuDeviceGetName),
      SymbolOf("cuDeviceGetUuid", 9020, cuDeviceGetUuid),
      SymbolOf("cuDeviceGetUuid", 11'040, cuDeviceGetUuid_v2),
      SymbolOf("cuDeviceGetAttribute", 2000, cuDeviceGetAttribute),
      SymbolOf("cuDevicePrimaryCtxRetain", 7000, cuDevicePrimaryCtxRetain),
      SymbolOf("cuDevicePrimaryCtxRelease", 11'000, cuDevicePrimaryCtxRelease_v2),
      SymbolOf("cuDevicePrimaryCtxSetFlags", 11'000, cuDevicePrimaryCtxSetFlags_v2),
      SymbolOf("cuCtxPushCurrent", 4000, cuCtxPushCurrent_v2),
      SymbolOf("cuCtxPopCurrent", 4000, cuCtxPopCurrent_v2),
      SymbolOf("cuMemGetInfo", 3020, cuMemGetInfo_v2),
      SymbolOf("cuMemAlloc", 3020, cuMemAlloc_v2),
      SymbolOf("cuMemFree", 3020, cuMemFree_v2),
      SymbolOf("cuMemGetAddressRange", 3020, cuMemGetAddressRange_v2),
      SymbolOf("cuMemHostAlloc", 2020, cuMemHostAlloc),
      SymbolOf("cuMemFreeHost", 2000, cuMemFreeHost),
      SymbolOf("cuMemsetD8Async", 3020, cuMemsetD8Async),
      SymbolOf("cuMemsetD2D8Async", 3020, cuMemsetD2D8Async),
      SymbolOf("cuMemcpyHtoDAsync", 3020, cuMemcpyHtoDAsync_v2),
      SymbolOf("cuMemcpyDtoHAsync", 3020, cuMemcpyDtoHAsync_v2),
      SymbolOf("cuMemcpyDtoDAsync", 3020, cuMemcpyDtoDAsync_v2),
      SymbolOf("cuMemcpyAsync", 4000, cuMemcpyAsync),
      SymbolOf("cuMemcpyPeerAsync", 4000, cuMemcpyPeerAsync),
      SymbolOf("cuMemcpyBatchAsync", 12'080, cuMemcpyBatchAsync),
      SymbolOf("cuMemcpyBatchAsync", 13'000, cuMemcpyBatchAsync_v2),
      SymbolOf("cuStreamCreateWithPriority", 5050, cuStreamCreateWithPriority),
      SymbolOf("cuStreamDestroy", 4000, cuStreamDestroy_v2),
      SymbolOf("cuStreamSynchronize", 2000, cuStreamSynchronize),
      SymbolOf("cuThreadExchangeStreamCaptureMode", 10'010, cuThreadExchangeStreamCaptureMode),
      SymbolOf("cuEventCreate", 2000, cuEventCreate),
      SymbolOf("cuEventRecord", 2000, cuEventRecord),
      SymbolOf("cuEventQuery", 2000, cuEventQuery),
      SymbolOf("cuEventSynchronize", 2000, cuEventSynchronize),
      SymbolOf("cuEventDestroy", 4000, cuEventDestroy_v2),
      SymbolOf("cuModuleLoadData", 2000, cuModuleLoadData),
      SymbolOf("cuModuleGetFunction", 2000, cuModuleGetFunction),
      SymbolOf("cuModuleUnload", 2000, cuModuleUnload),
      SymbolOf("cuLaunchKernel", 4000, cuLaunchKernel),
      SymbolOf("cuIpcGetMemHandle", 4010, cuIpcGetMemHandle),
      SymbolOf("cuIpcOpenMemHandle", 11'000, cuIpcOpenMemHandle_v2),
      SymbolOf("cuIpcCloseMemHandle", 4010, cuIpcCloseMemHandle),
  };
  return symbols;
}

// The newest declaration that both the caller and the driver know.
Result Find(std::string_view name, int version, void** function) {
  *function = nullptr;
  if (version > DriverVersion()) return Result::kInvalidValue;
  std::istringstream hidden(TheSettings().Get("FAKECUDA_WITHOUT").value_or(""));
  for (std::string word; std::getline(hidden, word, ',');) {
    if (word == name) return Result::kSuccess;
  }
  int newest = 0;
  for (const Symbol& symbol : Symbols()) {
    if (symbol.name != name || symbol.since > version || symbol.since < newest) continue;
    newest = symbol.since;
    *function = symbol.address;
  }
  return Result::kSuccess;
}

}  // namespace
}  // namespace fakecuda

using namespace fakecuda;  // NOLINT

Result cuGetProcAddress(const char* symbol, void** function, int version, uint64_t /*flags*/) {
  return Enter("cuGetProcAddress", [&] { return Find(symbol, version, function); });
}

Result cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t /*flags*/,
                           int* symbol_status) {
  return Enter("cuGetProcAddress", [&] {
    const Result result = Find(symbol, version, function);
    if (symbol_status != nullptr) *symbol_status = *function == nullptr ? 1 : 0;
    return result;
  });
}

void fakecuda_set(const char* name, const char* value) {
  TheSettings().Set(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
}

uint64_t fakecuda_calls(const char* call) { return TheCallBook().CountOf(call); }

uint64_t fakecuda_live(const char* kind) {
  const std::string_view name = kind;
  if (name == "allocation") return TheAddressSpace().allocation_count();
  if (name == "import") return TheAddressSpace().import_count();
  if (name == "host") return TheAddressSpace().host_count();
  if (name == "stream") return TheStreams().All().size();
  if (name == "event") return TheEvents().All().size();
  if (name == "module") return ModuleCount();
  uint64_t contexts = 0;
  for (size_t i = 0; i < kMaxDevices; ++i) contexts += ContextOf(i).is_retained() ? 1U : 0U;
  return contexts;
}

void fakecuda_hold() { TheGate().Hold(); }
void fakecuda_release() { TheGate().Release(); }

void fakecuda_reset() {
  TheGate().Release();
  TheSettings().Reset();
  TheCallBook().Reset();
  for (size_t i = 0; i < kMaxDevices; ++i) ContextOf(i).Reset();
}
