#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "tests/fakecuda/api.h"
#include "tests/fakecuda/calls.h"
#include "tests/fakecuda/contexts.h"
#include "tests/fakecuda/settings.h"
#include "tests/fakecuda/streams.h"

namespace fakecuda {
namespace {

// Those that tests meet. The real driver has a name for every result.
struct Named {
  Result result;
  const char* name;
  const char* text;
};
constexpr std::array kNames = {
    Named{Result::kSuccess, "CUDA_SUCCESS", "no error"},
    Named{Result::kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    Named{Result::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    Named{Result::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    Named{Result::kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    Named{Result::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    Named{Result::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    Named{Result::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS",
          "an illegal memory access was encountered"},
    Named{Result::kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    Named{Result::kSystemNotReady, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    Named{Result::kSystemDriverMismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
          "system has unsupported display driver / cuda driver combination"},
    Named{Result::kUnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
          "the provided PTX was compiled with an unsupported toolchain."},
    Named{Result::kUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

// A call about a visible device: `body` is given which of the machine's it is.
template <typename Body>
Result EnterOfDevice(const char* call, Ordinal device, Body body) {
  return Enter(call, [&]() -> Result {
    if (!IsInitialised()) return Result::kNotInitialized;
    const auto visible = VisibleDevices();
    if (device < 0 || static_cast<size_t>(device) >= visible.size()) return Result::kInvalidDevice;
    return body(visible[static_cast<size_t>(device)]);
  });
}

Result FindNamed(Result error, const char** text, const char* Named::*member) {
  for (const Named& named : kNames) {
    if (named.result != error) continue;
    *text = named.*member;
    return Result::kSuccess;
  }
  *text = nullptr;
  return Result::kInvalidValue;
}

}  // namespace

int DriverVersion() {
  return static_cast<int>(TheSettings().GetNumber("FAKECUDA_VERSION", 13'000));
}

}  // namespace fakecuda

using namespace fakecuda;  // NOLINT

Result cuInit(unsigned int flags) {
  return Enter("cuInit", [&] {
    if (flags != 0) return Result::kInvalidValue;
    if (VisibleDevices().empty()) return Result::kNoDevice;
    SetInitialised();
    return Result::kSuccess;
  });
}

Result cuDriverGetVersion(int* version) {
  return Enter("cuDriverGetVersion", [&] {
    *version = DriverVersion();
    return Result::kSuccess;
  });
}

Result cuGetErrorName(Result error, const char** name) {
  return FindNamed(error, name, &Named::name);
}

Result cuGetErrorString(Result error, const char** text) {
  return FindNamed(error, text, &Named::text);
}

Result cuDeviceGet(Ordinal* device, int ordinal) {
  return EnterOfDevice("cuDeviceGet", ordinal, [&](size_t) {
    *device = ordinal;
    return Result::kSuccess;
  });
}

Result cuDeviceGetCount(int* count) {
  return Enter("cuDeviceGetCount", [&] {
    if (!IsInitialised()) return Result::kNotInitialized;
    *count = static_cast<int>(VisibleDevices().size());
    return Result::kSuccess;
  });
}

Result cuDeviceGetName(char* name, int size, Ordinal device) {
  return EnterOfDevice("cuDeviceGetName", device, [&](size_t index) {
    const std::string text = "Fake GPU " + std::to_string(index);
    std::strncpy(name, text.c_str(), static_cast<size_t>(size));
    name[size - 1] = '\0';
    return Result::kSuccess;
  });
}

Result cuDeviceGetUuid(Uuid* uuid, Ordinal device) {
  return EnterOfDevice("cuDeviceGetUuid", device, [&](size_t index) {
    *uuid = UuidOf(index, /*of_gpu=*/true);
    return Result::kSuccess;
  });
}

Result cuDeviceGetUuid_v2(Uuid* uuid, Ordinal device) {
  return EnterOfDevice("cuDeviceGetUuid", device, [&](size_t index) {
    *uuid = UuidOf(index, /*of_gpu=*/false);
    return Result::kSuccess;
  });
}

Result cuDeviceGetAttribute(int* value, Attribute attribute, Ordinal device) {
  return EnterOfDevice("cuDeviceGetAttribute", device, [&](size_t) {
    const std::string name = "FAKECUDA_ATTRIBUTE_" + std::to_string(static_cast<int>(attribute));
    uint64_t otherwise = 1;
    if (attribute == Attribute::kMultiprocessorCount) otherwise = 4;
    if (attribute == Attribute::kComputeCapabilityMajor) otherwise = 9;
    if (attribute == Attribute::kComputeCapabilityMinor) otherwise = 0;
    *value = static_cast<int>(TheSettings().GetNumber(name, otherwise));
    return Result::kSuccess;
  });
}

Result cuDevicePrimaryCtxRetain(Context* context, Ordinal device) {
  return EnterOfDevice("cuDevicePrimaryCtxRetain", device, [&](size_t index) {
    ContextState& state = ContextOf(index);
    state.Retain();
    *context = reinterpret_cast<Context>(&state);
    return Result::kSuccess;
  });
}

Result cuDevicePrimaryCtxRelease_v2(Ordinal device) {
  return EnterOfDevice("cuDevicePrimaryCtxRelease", device, [&](size_t index) {
    return ContextOf(index).Release() ? Result::kSuccess : Result::kInvalidContext;
  });
}

Result cuDevicePrimaryCtxSetFlags_v2(Ordinal device, unsigned int /*flags*/) {
  return EnterOfDevice("cuDevicePrimaryCtxSetFlags", device,
                       [&](size_t) { return Result::kSuccess; });
}

Result cuCtxPushCurrent_v2(Context context) {
  return Enter("cuCtxPushCurrent", [&] {
    auto* const state = reinterpret_cast<ContextState*>(context);
    if (state == nullptr || !state->is_retained()) return Result::kInvalidContext;
    PushContext(state);
    return Result::kSuccess;
  });
}

Result cuCtxPopCurrent_v2(Context* context) {
  return Enter("cuCtxPopCurrent", [&] {
    ContextState* state = nullptr;
    if (!PopContext(&state)) return Result::kInvalidContext;
    if (context != nullptr) *context = reinterpret_cast<Context>(state);
    return Result::kSuccess;
  });
}
