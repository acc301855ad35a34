#include "tests/fakecuda/address_space.h"
#include "tests/fakecuda/api.h"
#include "tests/fakecuda/calls.h"
#include "tests/fakecuda/settings.h"
#include "tests/fakecuda/streams.h"

using namespace fakecuda;  // NOLINT

namespace {

// Freeing memory waits for whatever may still use it, as the real driver does.
void DrainStreams() {
  for (StreamState* stream : TheStreams().All()) stream->Synchronize();
}

}  // namespace

Result cuMemGetInfo_v2(size_t* free, size_t* total) {
  return EnterInContext("cuMemGetInfo", [&](ContextState& context) {
    *total = TheSettings().GetNumber("FAKECUDA_MEMORY", uint64_t{256} << 20);
    *free = *total - BackingStore::UsedBytes(context.index());
    return Result::kSuccess;
  });
}

Result cuMemAlloc_v2(DevicePointer* pointer, size_t size) {
  return EnterInContext("cuMemAlloc", [&](ContextState& context) {
    return TheAddressSpace().Allocate(context, size, pointer);
  });
}

Result cuMemFree_v2(DevicePointer pointer) {
  return Enter("cuMemFree", [&] {
    if (CurrentContext() == nullptr) return Result::kInvalidContext;
    DrainStreams();
    return TheAddressSpace().Free(pointer);
  });
}

Result cuMemGetAddressRange_v2(DevicePointer* base, size_t* size, DevicePointer pointer) {
  return EnterInContext("cuMemGetAddressRange", [&](ContextState&) {
    return TheAddressSpace().GetRange(pointer, base, size);
  });
}

Result cuMemHostAlloc(void** pointer, size_t size, unsigned int /*flags*/) {
  return EnterInContext("cuMemHostAlloc", [&](ContextState&) {
    if (size == 0 || pointer == nullptr) return Result::kInvalidValue;
    *pointer = TheAddressSpace().AllocateHost(size);
    return *pointer == nullptr ? Result::kOutOfMemory : Result::kSuccess;
  });
}

Result cuMemFreeHost(void* pointer) {
  return Enter("cuMemFreeHost", [&] {
    if (CurrentContext() == nullptr) return Result::kInvalidContext;
    DrainStreams();
    return TheAddressSpace().FreeHost(pointer) ? Result::kSuccess : Result::kInvalidValue;
  });
}

Result cuIpcGetMemHandle(IpcHandle* handle, DevicePointer pointer) {
  return EnterInContext("cuIpcGetMemHandle",
                        [&](ContextState&) { return TheAddressSpace().Export(pointer, handle); });
}

Result cuIpcOpenMemHandle_v2(DevicePointer* pointer, IpcHandle handle, unsigned int flags) {
  return EnterInContext("cuIpcOpenMemHandle", [&](ContextState& context) {
    if (IsBarredByCapture()) return Result::kStreamCaptureUnsupported;
    if (flags != kvpool::cuda::kIpcLazyEnablePeerAccess) return Result::kInvalidValue;
    return TheAddressSpace().Import(context, handle, pointer);
  });
}

Result cuIpcCloseMemHandle(DevicePointer pointer) {
  return EnterInContext("cuIpcCloseMemHandle", [&](ContextState&) {
    if (IsBarredByCapture()) return Result::kStreamCaptureUnsupported;
    DrainStreams();
    return TheAddressSpace().CloseImport(pointer);
  });
}
