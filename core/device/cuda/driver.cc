#include "core/device/cuda/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/device/cuda/symbol_table.h"
#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool::cuda {
namespace {

// What a result means to whoever called: the status's code, its reason, and what to do.
struct Meaning {
  absl::StatusCode code = absl::StatusCode::kInternal;
  Reason reason = Reason::kDevice;
  absl::string_view advice;
};

Meaning MeaningOf(Result result) {
  using enum Result;
  using absl::StatusCode;
  if (IsLost(result)) {
    return {StatusCode::kFailedPrecondition, Reason::kDeviceFailed,
            "the device is lost to this process; restart it, and look for 'Xid' in the kernel's "
            "log"};
  }
  switch (result) {
    case kOutOfMemory:
      return {StatusCode::kResourceExhausted, Reason::kDevice,
              "free memory on the device, or ask for less"};
    case kNoDevice:
      return {StatusCode::kFailedPrecondition, Reason::kDevice,
              "no GPU is visible here: see nvidia-smi, CUDA_VISIBLE_DEVICES and the container's "
              "devices"};
    case kInvalidDevice:
      return {StatusCode::kFailedPrecondition, Reason::kDevice,
              "there is no such device; see nvidia-smi -L"};
    case kStubLibrary:
      return {StatusCode::kFailedPrecondition, Reason::kDevice,
              "this is the toolkit's stub: take its directory out of the library path"};
    case kCallRequiresNewerDriver:
    case kSystemDriverMismatch:
    case kCompatNotSupportedOnDevice:
      return {StatusCode::kFailedPrecondition, Reason::kDevice,
              "library and kernel module are of different releases: install one, and reload the "
              "module or restart the machine"};
    case kOperatingSystem:
      return {StatusCode::kFailedPrecondition, Reason::kDevice,
              "the driver needs /dev/nvidia*, and to bind an abstract unix socket"};
    case kSystemNotReady:
      return {StatusCode::kUnavailable, Reason::kDevice,
              "the fabric is not up yet: see nvidia-fabricmanager, and try again"};
    case kDeviceUnavailable:
      return {StatusCode::kUnavailable, Reason::kDevice,
              "another process has the device to itself: see its compute mode, and try again"};
    default:
      return {};
  }
}

// What a driver too old for `call` is told.
absl::Status TooOld(const std::string& library, absl::string_view why) {
  return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDevice},
                   absl::StrCat("'", library, "' is too old: ", why,
                                "; CUDA 11.4 (driver 470) or later is needed"));
}

}  // namespace

std::string DriverLibrary() {
  const char* library = std::getenv("KVPOOL_LIBCUDA");
  return library == nullptr || *library == '\0' ? "libcuda.so.1" : library;
}

bool IsLost(Result result) {
  using enum Result;
  switch (result) {
    case kDeinitialized:
    case kEccUncorrectable:
    case kNvlinkUncorrectable:
    case kContained:
    case kIllegalAddress:
    case kLaunchTimeout:
    case kContextIsDestroyed:
    case kAssert:
    case kHardwareStackError:
    case kIllegalInstruction:
    case kMisalignedAddress:
    case kInvalidAddressSpace:
    case kInvalidPc:
    case kLaunchFailed:
    case kUnknown:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<std::shared_ptr<const Driver>> Driver::Load(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const error = dlerror();
    return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDevice},
                     absl::StrCat("there is no CUDA driver here that can be loaded: ",
                                  error == nullptr ? "" : error,
                                  "; install NVIDIA's driver, or set KVPOOL_LIBCUDA to its path"));
  }
  KVPOOL_ASSIGN_OR_RETURN(const SymbolTable symbols, SymbolTable::Open(handle, library));
  std::shared_ptr<Driver> driver(new Driver(library));
  Api& api = driver->api_;
  // First what tells errors and versions, so that the rest can say what is wrong.
  const absl::string_view lacks = symbols.FindFirst(api);
  if (!lacks.empty()) return TooOld(library, absl::StrCat("it lacks ", lacks));
  KVPOOL_RETURN_IF_ERROR(
      driver->ToStatus(api.cuDriverGetVersion(&driver->version_), "cuDriverGetVersion"));
  if (driver->version_ < kMinDriverVersion) {
    return TooOld(library, absl::StrCat("it is CUDA ", driver->version_ / 1000, ".",
                                        driver->version_ % 1000 / 10));
  }
  KVPOOL_RETURN_IF_ERROR(driver->ToStatus(api.cuInit(0), "cuInit"));
  const absl::string_view missing = symbols.FindAll(driver->version_, api);
  if (!missing.empty()) return TooOld(library, absl::StrCat("it lacks ", missing));
  return driver;
}

absl::Status Driver::ToStatus(Result result, absl::string_view call) const {
  if (result == Result::kSuccess) return absl::OkStatus();
  const Meaning meaning = MeaningOf(result);
  std::string message = Describe(result, call);
  if (!meaning.advice.empty()) absl::StrAppend(&message, "; ", meaning.advice);
  return MakeError(meaning.code, {.reason = meaning.reason}, message);
}

std::string Driver::Describe(Result result, absl::string_view call) const {
  const char* name = nullptr;
  const char* text = nullptr;
  // A number that the driver does not know leaves both null.
  api_.cuGetErrorName(result, &name);
  api_.cuGetErrorString(result, &text);
  return absl::StrCat(call, ": ", name == nullptr ? "unknown error" : name, " (",
                      static_cast<int>(result), ")", text == nullptr ? "" : ": ",
                      text == nullptr ? "" : text);
}

}  // namespace kvpool::cuda
