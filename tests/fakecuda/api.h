#pragma once

#include "core/device/cuda/driver_api.h"

// The calls that the fake driver has, by the names under which a library of the real one has
// them. cuGetProcAddress gives them by name and version.
extern "C" {

using kvpool::cuda::Attribute;
using kvpool::cuda::Context;
using kvpool::cuda::CopyAttributes;
using kvpool::cuda::DevicePointer;
using kvpool::cuda::Event;
using kvpool::cuda::Function;
using kvpool::cuda::IpcHandle;
using kvpool::cuda::Module;
using kvpool::cuda::Ordinal;
using kvpool::cuda::Result;
using kvpool::cuda::Stream;
using kvpool::cuda::Uuid;

// api_device.cc
Result cuInit(unsigned int flags);
Result cuDriverGetVersion(int* version);
Result cuGetErrorName(Result error, const char** name);
Result cuGetErrorString(Result error, const char** text);
Result cuDeviceGet(Ordinal* device, int ordinal);
Result cuDeviceGetCount(int* count);
Result cuDeviceGetName(char* name, int size, Ordinal device);
Result cuDeviceGetUuid(Uuid* uuid, Ordinal device);
Result cuDeviceGetUuid_v2(Uuid* uuid, Ordinal device);
Result cuDeviceGetAttribute(int* value, Attribute attribute, Ordinal device);
Result cuDevicePrimaryCtxRetain(Context* context, Ordinal device);
Result cuDevicePrimaryCtxRelease_v2(Ordinal device);
Result cuDevicePrimaryCtxSetFlags_v2(Ordinal device, unsigned int flags);
Result cuCtxPushCurrent_v2(Context context);
Result cuCtxPopCurrent_v2(Context* context);

// api_memory.cc
Result cuMemGetInfo_v2(size_t* free, size_t* total);
Result cuMemAlloc_v2(DevicePointer* pointer, size_t size);
Result cuMemFree_v2(DevicePointer pointer);
Result cuMemGetAddressRange_v2(DevicePointer* base, size_t* size, DevicePointer pointer);
Result cuMemHostAlloc(void** pointer, size_t size, unsigned int flags);
Result cuMemFreeHost(void* pointer);
Result cuIpcGetMemHandle(IpcHandle* handle, DevicePointer pointer);
Result cuIpcOpenMemHandle_v2(DevicePointer* pointer, IpcHandle handle, unsigned int flags);
Result cuIpcCloseMemHandle(DevicePointer pointer);

// api_copy.cc
Result cuMemsetD8Async(DevicePointer to, unsigned char value, size_t size, Stream stream);
Result cuMemsetD2D8Async(DevicePointer to, size_t pitch, unsigned char value, size_t width,
                         size_t height, Stream stream);
Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t size, Stream stream);
Result cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t size, Stream stream);
Result cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t size, Stream stream);
Result cuMemcpyAsync(DevicePointer to, DevicePointer from, size_t size, Stream stream);
Result cuMemcpyPeerAsync(DevicePointer to, Context to_context, DevicePointer from,
                         Context from_context, size_t size, Stream stream);
Result cuMemcpyBatchAsync(DevicePointer* to, DevicePointer* from, size_t* sizes, size_t count,
                          CopyAttributes* attributes, size_t* first_of, size_t attribute_count,
                          size_t* failed, Stream stream);
Result cuMemcpyBatchAsync_v2(DevicePointer* to, DevicePointer* from, size_t* sizes, size_t count,
                             CopyAttributes* attributes, size_t* first_of, size_t attribute_count,
                             Stream stream);

// api_stream.cc
Result cuStreamCreateWithPriority(Stream* stream, unsigned int flags, int priority);
Result cuStreamDestroy_v2(Stream stream);
Result cuStreamSynchronize(Stream stream);
Result cuThreadExchangeStreamCaptureMode(int* mode);
Result cuEventCreate(Event* event, unsigned int flags);
Result cuEventRecord(Event event, Stream stream);
Result cuEventQuery(Event event);
Result cuEventSynchronize(Event event);
Result cuEventDestroy_v2(Event event);

// api_module.cc
Result cuModuleLoadData(Module* module, const void* image);
Result cuModuleGetFunction(Function* function, Module module, const char* name);
Result cuModuleUnload(Module module);
Result cuLaunchKernel(Function function, unsigned int grid_x, unsigned int grid_y,
                      unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                      unsigned int block_z, unsigned int shared_bytes, Stream stream,
                      void** parameters, void** extra);

// api_lookup.cc
Result cuGetProcAddress(const char* symbol, void** function, int version, uint64_t flags);
Result cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t flags,
                           int* symbol_status);

}  // extern "C"

namespace fakecuda {

// How many modules are loaded.
uint64_t ModuleCount();

// What FAKECUDA_VERSION says.
int DriverVersion();

}  // namespace fakecuda
