#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "tests/fakecuda/address_space.h"
#include "tests/fakecuda/api.h"
#include "tests/fakecuda/calls.h"
#include "tests/fakecuda/streams.h"

using namespace fakecuda;  // NOLINT

namespace {

struct OneCopy {
  DevicePointer to = 0;
  DevicePointer from = 0;
  size_t size = 0;
};

DevicePointer AddressOf(const void* pointer) { return reinterpret_cast<DevicePointer>(pointer); }

// A stream's operation on the current context: `prepare` checks what the call can see and gives
// the work, or the result to refuse with.
template <typename Body>
Result EnterOnStream(const char* call, Stream stream, Body body) {
  return EnterInContext(call, [&](ContextState& context) -> Result {
    StreamState* const state = TheStreams().Find(stream);
    // No stream is given up here for the default one: the daemon has its own.
    if (state == nullptr || &state->context() != &context) return Result::kInvalidHandle;
    return body(*state);
  });
}

// What a copy moves: device memory by the driver's mapping, any other address as it is.
std::byte* Bytes(DevicePointer address, size_t size) {
  if (TheAddressSpace().IsDeviceAddress(address)) return TheAddressSpace().Translate(address, size);
  return reinterpret_cast<std::byte*>(address);
}

Result DoCopy(const OneCopy& copy) {
  if (copy.size == 0) return Result::kSuccess;
  std::byte* const to = Bytes(copy.to, copy.size);
  const std::byte* const from = Bytes(copy.from, copy.size);
  if (to == nullptr || from == nullptr) return Result::kIllegalAddress;
  std::memcpy(to, from, copy.size);
  return Result::kSuccess;
}

bool IsDeviceRange(DevicePointer address, size_t size) {
  return TheAddressSpace().Translate(address, size) != nullptr;
}

bool IsValid(const OneCopy& copy) {
  const auto is_valid = [&](DevicePointer address) {
    if (!TheAddressSpace().IsDeviceAddress(address)) return address != 0;
    return IsDeviceRange(address, copy.size);
  };
  return is_valid(copy.to) && is_valid(copy.from);
}

Result EnqueueCopy(StreamState& stream, const OneCopy& copy) {
  if (!IsValid(copy)) return Result::kInvalidValue;
  stream.Enqueue([copy] { return DoCopy(copy); });
  return Result::kSuccess;
}

// What both declarations of cuMemcpyBatchAsync do.
Result EnqueueBatch(StreamState& stream, std::vector<OneCopy> copies,
                    const CopyAttributes* attributes, const size_t* first_of,
                    size_t attribute_count) {
  if (copies.empty() || attribute_count == 0 || attribute_count > copies.size()) {
    return Result::kInvalidValue;
  }
  for (size_t i = 0; i < attribute_count; ++i) {
    const int order = attributes[i].source_access_order;
    if (order < 1 || order > 3) return Result::kInvalidValue;
    if (i == 0 ? first_of[i] != 0 : first_of[i] <= first_of[i - 1]) return Result::kInvalidValue;
    if (first_of[i] >= copies.size()) return Result::kInvalidValue;
  }
  if (!std::ranges::all_of(copies, IsValid)) return Result::kInvalidValue;
  // Nothing is promised about the order within a batch.
  std::ranges::shuffle(copies, std::mt19937(static_cast<unsigned int>(copies.size())));
  stream.Enqueue([copies = std::move(copies)] {
    for (const OneCopy& copy : copies) {
      if (const Result result = DoCopy(copy); result != Result::kSuccess) return result;
    }
    return Result::kSuccess;
  });
  return Result::kSuccess;
}

std::vector<OneCopy> CopiesOf(const DevicePointer* to, const DevicePointer* from,
                              const size_t* sizes, size_t count) {
  std::vector<OneCopy> copies(count);
  for (size_t i = 0; i < count; ++i) copies[i] = {.to = to[i], .from = from[i], .size = sizes[i]};
  return copies;
}

}  // namespace

Result cuMemsetD8Async(DevicePointer to, unsigned char value, size_t size, Stream stream) {
  return EnterOnStream("cuMemsetD8Async", stream, [&](StreamState& state) {
    if (!IsDeviceRange(to, size)) return Result::kInvalidValue;
    state.Enqueue([=] {
      std::byte* const bytes = Bytes(to, size);
      if (bytes == nullptr) return Result::kIllegalAddress;
      std::memset(bytes, value, size);
      return Result::kSuccess;
    });
    return Result::kSuccess;
  });
}

Result cuMemsetD2D8Async(DevicePointer to, size_t pitch, unsigned char value, size_t width,
                         size_t height, Stream stream) {
  return EnterOnStream("cuMemsetD2D8Async", stream, [&](StreamState& state) {
    if (width == 0 || height == 0 || (height > 1 && pitch < width)) return Result::kInvalidValue;
    const size_t size = (height - 1) * pitch + width;
    if (!IsDeviceRange(to, size)) return Result::kInvalidValue;
    state.Enqueue([=] {
      std::byte* const bytes = Bytes(to, size);
      if (bytes == nullptr) return Result::kIllegalAddress;
      for (size_t row = 0; row < height; ++row) std::memset(bytes + row * pitch, value, width);
      return Result::kSuccess;
    });
    return Result::kSuccess;
  });
}

Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t size, Stream stream) {
  return EnterOnStream("cuMemcpyHtoDAsync", stream, [&](StreamState& state) {
    if (!TheAddressSpace().IsDeviceAddress(to)) return Result::kInvalidValue;
    return EnqueueCopy(state, {.to = to, .from = AddressOf(from), .size = size});
  });
}

Result cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t size, Stream stream) {
  return EnterOnStream("cuMemcpyDtoHAsync", stream, [&](StreamState& state) {
    if (!TheAddressSpace().IsDeviceAddress(from)) return Result::kInvalidValue;
    return EnqueueCopy(state, {.to = AddressOf(to), .from = from, .size = size});
  });
}

Result cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t size, Stream stream) {
  return EnterOnStream("cuMemcpyDtoDAsync", stream, [&](StreamState& state) {
    if (!IsDeviceRange(to, size) || !IsDeviceRange(from, size)) return Result::kInvalidValue;
    return EnqueueCopy(state, {.to = to, .from = from, .size = size});
  });
}

Result cuMemcpyAsync(DevicePointer to, DevicePointer from, size_t size, Stream stream) {
  return EnterOnStream("cuMemcpyAsync", stream, [&](StreamState& state) {
    return EnqueueCopy(state, {.to = to, .from = from, .size = size});
  });
}

Result cuMemcpyPeerAsync(DevicePointer to, Context to_context, DevicePointer from,
                         Context from_context, size_t size, Stream stream) {
  return EnterOnStream("cuMemcpyPeerAsync", stream, [&](StreamState& state) {
    if (to_context == nullptr || from_context == nullptr) return Result::kInvalidContext;
    if (!IsDeviceRange(to, size) || !IsDeviceRange(from, size)) return Result::kInvalidValue;
    return EnqueueCopy(state, {.to = to, .from = from, .size = size});
  });
}

Result cuMemcpyBatchAsync(DevicePointer* to, DevicePointer* from, size_t* sizes, size_t count,
                          CopyAttributes* attributes, size_t* first_of, size_t attribute_count,
                          size_t* failed, Stream stream) {
  return EnterOnStream("cuMemcpyBatchAsync", stream, [&](StreamState& state) {
    const Result result = EnqueueBatch(state, CopiesOf(to, from, sizes, count), attributes,
                                       first_of, attribute_count);
    // Not about one of the copies, as far as this driver tells.
    if (result != Result::kSuccess && failed != nullptr) *failed = SIZE_MAX;
    return result;
  });
}

Result cuMemcpyBatchAsync_v2(DevicePointer* to, DevicePointer* from, size_t* sizes, size_t count,
                             CopyAttributes* attributes, size_t* first_of, size_t attribute_count,
                             Stream stream) {
  return EnterOnStream("cuMemcpyBatchAsync", stream, [&](StreamState& state) {
    return EnqueueBatch(state, CopiesOf(to, from, sizes, count), attributes, first_of,
                        attribute_count);
  });
}
