#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/device/cuda/driver_api.h"

namespace kvpool::cuda {

// The oldest driver that will do, as cuDriverGetVersion says it: CUDA 11.4, whose
// cuDeviceGetUuid tells the parts of a partitioned GPU (MIG) apart.
inline constexpr int kMinDriverVersion = 11'040;

// What is loaded as the CUDA driver unless a path is given: the environment's KVPOOL_LIBCUDA,
// else "libcuda.so.1".
std::string DriverLibrary();

// Driver is the CUDA driver of this machine, found at run time: nothing links to it. Loading it
// initialises it (cuInit) for this process, once and for all; it is never unloaded, since it
// keeps threads. Immutable; thread-safe.
class Driver {
 public:
  // Errors, each with reason DEVICE and what to do about it: FAILED_PRECONDITION where there is
  // no such library, it is no driver, it is older than kMinDriverVersion, or cuInit says that
  // there is no device or that library and kernel module differ; UNAVAILABLE where the GPU's
  // fabric is not up yet.
  static absl::StatusOr<std::shared_ptr<const Driver>> Load(const std::string& library);

  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // OK, or what `result` of the call named `call` means: its name, number and text, and what to
  // do. RESOURCE_EXHAUSTED where memory ran out; FAILED_PRECONDITION with DEVICE_FAILED where
  // the context is lost (see IsLost), with DEVICE where the machine must change; UNAVAILABLE
  // with DEVICE where it is worth trying again; INTERNAL with DEVICE otherwise.
  absl::Status ToStatus(Result result, absl::string_view call) const;

  const Api& api() const { return api_; }
  // Such as 13000 for CUDA 13.0.
  int version() const { return version_; }

 private:
  explicit Driver(std::string library) : library_(std::move(library)) {}

  // What is said of a call that failed, but for what to do.
  std::string Describe(Result result, absl::string_view call) const;

  const std::string library_;
  Api api_{};
  int version_ = 0;
};

// Whether a context that had this result can do nothing more: every later call gives the same.
bool IsLost(Result result);

}  // namespace kvpool::cuda
