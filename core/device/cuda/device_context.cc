#include "core/device/cuda/device_context.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool::cuda {

absl::StatusOr<std::shared_ptr<DeviceContext>> DeviceContext::Retain(
    std::shared_ptr<const Driver> driver, const DeviceEntry& entry) {
  std::shared_ptr<DeviceContext> context(new DeviceContext(std::move(driver), entry));
  const Api& api = context->api();
  // Threads that wait for the device sleep instead of turning. One that is active already, since
  // something else in this process uses it, stays as it is.
  const Result flagged = api.cuDevicePrimaryCtxSetFlags(entry.ordinal, kScheduleBlockingSync);
  if (flagged != Result::kPrimaryContextActive) {
    KVPOOL_RETURN_IF_ERROR(context->Check(flagged, "cuDevicePrimaryCtxSetFlags"));
  }
  Context handle = nullptr;
  KVPOOL_RETURN_IF_ERROR(context->Check(api.cuDevicePrimaryCtxRetain(&handle, entry.ordinal),
                                        "cuDevicePrimaryCtxRetain"));
  context->handle_ = handle;
  return context;
}

DeviceContext::~DeviceContext() {
  // What is wrong with it is nobody's business any more.
  if (handle_ != nullptr) api().cuDevicePrimaryCtxRelease(entry_.ordinal);
}

DeviceContext::Scope::Scope(DeviceContext& context) : context_(context), status_(Enter()) {}

absl::Status DeviceContext::Scope::Enter() {
  const Api& api = context_.api();
  absl::Status pushed = context_.Check(api.cuCtxPushCurrent(context_.handle_), "cuCtxPushCurrent");
  if (!pushed.ok()) return pushed;
  // A capture in the global mode, as frameworks make them, is invalid once any thread but a relaxed
  // one asks for an event or opens memory. Where it cannot be spared, all else goes on.
  const Result exchanged = api.cuThreadExchangeStreamCaptureMode(&capture_mode_);
  has_exchanged_ = exchanged == Result::kSuccess;
  if (!IsLost(exchanged)) return absl::OkStatus();
  Context popped = nullptr;
  api.cuCtxPopCurrent(&popped);
  return context_.Check(exchanged, "cuThreadExchangeStreamCaptureMode");
}

DeviceContext::Scope::~Scope() {
  if (!status_.ok()) return;
  if (has_exchanged_) (void)context_.api().cuThreadExchangeStreamCaptureMode(&capture_mode_);
  Context popped = nullptr;
  context_.api().cuCtxPopCurrent(&popped);
}

absl::Status DeviceContext::Check(Result result, absl::string_view call) {
  if (result == Result::kSuccess) return absl::OkStatus();
  const absl::Status plain = driver_->ToStatus(result, call);
  absl::Status status = MakeError(plain.code(), GetErrorDetail(plain),
                                  absl::StrCat(entry_.uuid, ": ", plain.message()));
  if (IsLost(result)) Fail(status);
  return status;
}

void DeviceContext::GiveUp(const absl::Status& why) {
  Fail(MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDeviceFailed},
                 absl::StrCat(why.message(),
                              "; it is not known what the device still does: restart "
                              "the process")));
}

void DeviceContext::Fail(const absl::Status& status) {
  const MutexLock lock(mutex_);
  if (failure_.ok()) failure_ = status;
  has_failed_.store(true, std::memory_order_release);
}

absl::Status DeviceContext::health() const {
  if (!has_failed_.load(std::memory_order_acquire)) return absl::OkStatus();
  const MutexLock lock(mutex_);
  return failure_;
}

}  // namespace kvpool::cuda
