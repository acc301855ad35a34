#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/cuda/cuda_abi.h"

namespace kvpool::cuda {

// cuGetProcAddress, as of CUDA 12.0 and as of 11.3.
using GetProcAddress = Result(const char* symbol, void** function, int version, uint64_t flags,
                              int* symbol_status);
using OldGetProcAddress = Result(const char* symbol, void** function, int version, uint64_t flags);

// The calls, each in the version whose declaration this is (driver.cc has the numbers). Those
// below the line are null where the driver has none.
struct Api {
  Result (*cuInit)(unsigned int flags);
  Result (*cuDriverGetVersion)(int* version);
  Result (*cuGetErrorName)(Result error, const char** name);
  Result (*cuGetErrorString)(Result error, const char** text);
  Result (*cuDeviceGet)(Ordinal* device, int ordinal);
  Result (*cuDeviceGetCount)(int* count);
  Result (*cuDeviceGetName)(char* name, int size, Ordinal device);
  Result (*cuDeviceGetUuid)(Uuid* uuid, Ordinal device);
  Result (*cuDeviceGetAttribute)(int* value, Attribute attribute, Ordinal device);
  Result (*cuDevicePrimaryCtxRetain)(Context* context, Ordinal device);
  Result (*cuDevicePrimaryCtxRelease)(Ordinal device);
  Result (*cuDevicePrimaryCtxSetFlags)(Ordinal device, unsigned int flags);
  Result (*cuCtxPushCurrent)(Context context);
  Result (*cuCtxPopCurrent)(Context* context);
  Result (*cuMemGetInfo)(size_t* free, size_t* total);
  Result (*cuMemAlloc)(DevicePointer* pointer, size_t size);
  Result (*cuMemFree)(DevicePointer pointer);
  Result (*cuMemGetAddressRange)(DevicePointer* base, size_t* size, DevicePointer pointer);
  Result (*cuMemHostAlloc)(void** pointer, size_t size, unsigned int flags);
  Result (*cuMemFreeHost)(void* pointer);
  Result (*cuMemsetD8Async)(DevicePointer to, unsigned char value, size_t size, Stream stream);
  Result (*cuMemsetD2D8Async)(DevicePointer to, size_t pitch, unsigned char value, size_t width,
                              size_t height, Stream stream);
  // Any way: an address says itself whether it is the device's or the host's.
  Result (*cuMemcpyAsync)(DevicePointer to, DevicePointer from, size_t size, Stream stream);
  Result (*cuMemcpyPeerAsync)(DevicePointer to, Context to_context, DevicePointer from,
                              Context from_context, size_t size, Stream stream);
  Result (*cuStreamCreateWithPriority)(Stream* stream, unsigned int flags, int priority);
  Result (*cuStreamDestroy)(Stream stream);
  Result (*cuStreamSynchronize)(Stream stream);
  // CUstreamCaptureMode: takes one and gives the thread's last.
  Result (*cuThreadExchangeStreamCaptureMode)(int* mode);
  Result (*cuEventCreate)(Event* event, unsigned int flags);
  Result (*cuEventRecord)(Event event, Stream stream);
  Result (*cuEventQuery)(Event event);
  Result (*cuEventSynchronize)(Event event);
  Result (*cuEventDestroy)(Event event);
  Result (*cuModuleLoadData)(Module* module, const void* image);
  Result (*cuModuleGetFunction)(Function* function, Module module, const char* name);
  Result (*cuModuleUnload)(Module module);
  Result (*cuLaunchKernel)(Function function, unsigned int grid_x, unsigned int grid_y,
                           unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                           unsigned int block_z, unsigned int shared_bytes, Stream stream,
                           void** parameters, void** extra);
  Result (*cuIpcGetMemHandle)(IpcHandle* handle, DevicePointer pointer);
  Result (*cuIpcOpenMemHandle)(DevicePointer* pointer, IpcHandle handle, unsigned int flags);
  Result (*cuIpcCloseMemHandle)(DevicePointer pointer);
  // -------------------------------------------------------------------------------------------
  // The UUID of the whole GPU: another than cuDeviceGetUuid's where the device is a part of it.
  Result (*cuDeviceGetUuidOfGpu)(Uuid* uuid, Ordinal device);
  // As of CUDA 12.8, with the index of the copy that failed, and as of 13.0, without. One of the
  // two at most.
  Result (*cuMemcpyBatchAsync12)(DevicePointer* to, DevicePointer* from, size_t* sizes,
                                 size_t count, CopyAttributes* attributes, size_t* first_of,
                                 size_t attribute_count, size_t* failed, Stream stream);
  Result (*cuMemcpyBatchAsync13)(DevicePointer* to, DevicePointer* from, size_t* sizes,
                                 size_t count, CopyAttributes* attributes, size_t* first_of,
                                 size_t attribute_count, Stream stream);
};

}  // namespace kvpool::cuda
