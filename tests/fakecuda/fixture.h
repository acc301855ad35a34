#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/fakecuda/api.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

namespace fakecuda {

// A fake driver as if new, with a directory of its own, for one test, which is to leave nothing
// behind in it.
class FreshDriver {
 public:
  FreshDriver() {
    fakecuda_reset();
    fakecuda_set("FAKECUDA_DIR", directory_.path().c_str());
  }
  ~FreshDriver() {
    for (const char* kind :
         {"context", "allocation", "import", "host", "stream", "event", "module"}) {
      CAPTURE(kind);
      CHECK(fakecuda_live(kind) == 0);
    }
    fakecuda_reset();
  }

  FreshDriver(const FreshDriver&) = delete;
  FreshDriver& operator=(const FreshDriver&) = delete;

  std::string directory() const { return directory_.path().string(); }
  std::string File(const std::string& name) const { return directory_.File(name); }

 private:
  kvpool::test::TempDir directory_;
};

// The first device's context, current in this thread, and a stream.
class CurrentDevice {
 public:
  CurrentDevice() {
    REQUIRE(cuInit(0) == Result::kSuccess);
    REQUIRE(cuDevicePrimaryCtxRetain(&context_, 0) == Result::kSuccess);
    REQUIRE(cuCtxPushCurrent_v2(context_) == Result::kSuccess);
    REQUIRE(cuStreamCreateWithPriority(&stream_, 1, 0) == Result::kSuccess);
  }
  ~CurrentDevice() {
    cuStreamDestroy_v2(stream_);
    cuCtxPopCurrent_v2(nullptr);
    cuDevicePrimaryCtxRelease_v2(0);
  }

  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  Stream stream() const { return stream_; }
  Context context() const { return context_; }

  DevicePointer Allocate(size_t size) {
    DevicePointer pointer = 0;
    REQUIRE(cuMemAlloc_v2(&pointer, size) == Result::kSuccess);
    return pointer;
  }
  std::vector<uint8_t> Read(DevicePointer from, size_t size) {
    std::vector<uint8_t> bytes(size);
    REQUIRE(cuMemcpyDtoHAsync_v2(bytes.data(), from, size, stream_) == Result::kSuccess);
    REQUIRE(cuStreamSynchronize(stream_) == Result::kSuccess);
    return bytes;
  }
  void Write(DevicePointer to, std::span<const uint8_t> bytes) {
    REQUIRE(cuMemcpyHtoDAsync_v2(to, bytes.data(), bytes.size(), stream_) == Result::kSuccess);
    REQUIRE(cuStreamSynchronize(stream_) == Result::kSuccess);
  }

 private:
  Context context_ = nullptr;
  Stream stream_ = nullptr;
};

}  // namespace fakecuda
