#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "core/device/cuda/device_context.h"
#include "core/device/cuda/driver.h"

namespace kvpool::questions {

using cuda::DevicePointer;
using cuda::Result;

// What regions are multiples of, so that none shares its memory with another.
inline constexpr uint64_t kPage = uint64_t{2} << 20;

// The machine's first GPU in this process: its context, current in the thread that opened it, and
// a stream. Its calls give the driver's own results, since they are the answers. For that thread.
class Gpu {
 public:
  static absl::StatusOr<std::unique_ptr<Gpu>> Open();
  // The same, or nothing, after saying so as the answer.
  static std::unique_ptr<Gpu> OpenOrSay();
  ~Gpu();

  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const cuda::Api& api() const { return context_->api(); }
  const std::shared_ptr<cuda::DeviceContext>& context() const { return context_; }
  cuda::Stream stream() const { return stream_; }
  int driver_version() const { return driver_->version(); }

  // Such as "201 CUDA_ERROR_INVALID_CONTEXT (invalid device context)", and "0".
  std::string Text(Result result) const;

  // Each waits for its end.
  Result Read(DevicePointer from, void* to, uint64_t size_bytes) const;
  Result Write(DevicePointer to, const void* from, uint64_t size_bytes) const;
  Result Fill(DevicePointer to, uint8_t value, uint64_t size_bytes) const;
  Result Synchronize() const { return api().cuStreamSynchronize(stream_); }

  // Of the whole device; 0 where the driver does not say.
  uint64_t FreeBytes() const;

 private:
  explicit Gpu(std::shared_ptr<const cuda::Driver> driver) : driver_(std::move(driver)) {}

  const std::shared_ptr<const cuda::Driver> driver_;
  std::shared_ptr<cuda::DeviceContext> context_;
  std::unique_ptr<cuda::DeviceContext::Scope> scope_;
  cuda::Stream stream_ = nullptr;
};

// A call of the driver that core does not use, by the name that the library has it under; null
// where it has it not.
void* FindSymbol(const char* name);
template <typename Call>
bool FindCall(const char* name, Call*& call) {
  call = reinterpret_cast<Call*>(FindSymbol(name));
  return call != nullptr;
}

}  // namespace kvpool::questions
