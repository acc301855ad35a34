// Holds driver_api.h and cuda_abi.h to the toolkit's headers. Built only where there is one, and
// never linked: that it compiles is the check. Whether the numbers under which symbol_table.cc
// asks for the calls are those of these declarations is in the names of the PFN types here.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstddef>
#include <type_traits>

#include "core/device/cuda/driver_api.h"

namespace kvpool::cuda {
namespace {

// Whether two types are passed alike: pointers to pointers, numbers and enumerations to those of
// their size, structures to structures of their size and alignment.
template <typename A, typename B>
constexpr bool PassedAlike() {
  if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>) {
    return std::is_pointer_v<A> && std::is_pointer_v<B>;
  } else {
    constexpr bool kNumberA = std::is_integral_v<A> || std::is_enum_v<A>;
    constexpr bool kNumberB = std::is_integral_v<B> || std::is_enum_v<B>;
    return sizeof(A) == sizeof(B) && alignof(A) == alignof(B) && kNumberA == kNumberB;
  }
}

template <typename A, typename B>
struct CalledAlike : std::false_type {};

template <typename R, typename... P, typename S, typename... Q>
struct CalledAlike<R (*)(P...), S (*)(Q...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(P) == sizeof...(Q)) {
      return PassedAlike<R, S>() && (PassedAlike<P, Q>() && ...);
    }
    return false;
  }();
};

template <typename Ours, typename Theirs>
constexpr bool kSame = CalledAlike<Ours, Theirs>::value;

static_assert(kSame<GetProcAddress*, PFN_cuGetProcAddress_v12000>);
static_assert(kSame<OldGetProcAddress*, PFN_cuGetProcAddress_v11030>);
static_assert(kSame<decltype(Api::cuGetErrorName), PFN_cuGetErrorName_v6000>);
static_assert(kSame<decltype(Api::cuGetErrorString), PFN_cuGetErrorString_v6000>);
static_assert(kSame<decltype(Api::cuDriverGetVersion), PFN_cuDriverGetVersion_v2020>);
static_assert(kSame<decltype(Api::cuInit), PFN_cuInit_v2000>);
static_assert(kSame<decltype(Api::cuDeviceGet), PFN_cuDeviceGet_v2000>);
static_assert(kSame<decltype(Api::cuDeviceGetCount), PFN_cuDeviceGetCount_v2000>);
static_assert(kSame<decltype(Api::cuDeviceGetName), PFN_cuDeviceGetName_v2000>);
static_assert(kSame<decltype(Api::cuDeviceGetUuid), PFN_cuDeviceGetUuid_v11040>);
static_assert(kSame<decltype(Api::cuDeviceGetAttribute), PFN_cuDeviceGetAttribute_v2000>);
static_assert(kSame<decltype(Api::cuDevicePrimaryCtxRetain), PFN_cuDevicePrimaryCtxRetain_v7000>);
static_assert(
    kSame<decltype(Api::cuDevicePrimaryCtxRelease), PFN_cuDevicePrimaryCtxRelease_v11000>);
static_assert(
    kSame<decltype(Api::cuDevicePrimaryCtxSetFlags), PFN_cuDevicePrimaryCtxSetFlags_v11000>);
static_assert(kSame<decltype(Api::cuCtxPushCurrent), PFN_cuCtxPushCurrent_v4000>);
static_assert(kSame<decltype(Api::cuCtxPopCurrent), PFN_cuCtxPopCurrent_v4000>);
static_assert(kSame<decltype(Api::cuMemGetInfo), PFN_cuMemGetInfo_v3020>);
static_assert(kSame<decltype(Api::cuMemAlloc), PFN_cuMemAlloc_v3020>);
static_assert(kSame<decltype(Api::cuMemFree), PFN_cuMemFree_v3020>);
static_assert(kSame<decltype(Api::cuMemGetAddressRange), PFN_cuMemGetAddressRange_v3020>);
static_assert(kSame<decltype(Api::cuMemHostAlloc), PFN_cuMemHostAlloc_v2020>);
static_assert(kSame<decltype(Api::cuMemFreeHost), PFN_cuMemFreeHost_v2000>);
static_assert(kSame<decltype(Api::cuMemsetD8Async), PFN_cuMemsetD8Async_v3020>);
static_assert(kSame<decltype(Api::cuMemsetD2D8Async), PFN_cuMemsetD2D8Async_v3020>);
static_assert(kSame<decltype(Api::cuMemcpyAsync), PFN_cuMemcpyAsync_v4000>);
static_assert(kSame<decltype(Api::cuMemcpyPeerAsync), PFN_cuMemcpyPeerAsync_v4000>);
static_assert(
    kSame<decltype(Api::cuStreamCreateWithPriority), PFN_cuStreamCreateWithPriority_v5050>);
static_assert(kSame<decltype(Api::cuStreamDestroy), PFN_cuStreamDestroy_v4000>);
static_assert(kSame<decltype(Api::cuStreamSynchronize), PFN_cuStreamSynchronize_v2000>);
static_assert(kSame<decltype(Api::cuThreadExchangeStreamCaptureMode),
                    PFN_cuThreadExchangeStreamCaptureMode_v10010>);
static_assert(kSame<decltype(Api::cuEventCreate), PFN_cuEventCreate_v2000>);
static_assert(kSame<decltype(Api::cuEventRecord), PFN_cuEventRecord_v2000>);
static_assert(kSame<decltype(Api::cuEventQuery), PFN_cuEventQuery_v2000>);
static_assert(kSame<decltype(Api::cuEventSynchronize), PFN_cuEventSynchronize_v2000>);
static_assert(kSame<decltype(Api::cuEventDestroy), PFN_cuEventDestroy_v4000>);
static_assert(kSame<decltype(Api::cuModuleLoadData), PFN_cuModuleLoadData_v2000>);
static_assert(kSame<decltype(Api::cuModuleGetFunction), PFN_cuModuleGetFunction_v2000>);
static_assert(kSame<decltype(Api::cuModuleUnload), PFN_cuModuleUnload_v2000>);
static_assert(kSame<decltype(Api::cuLaunchKernel), PFN_cuLaunchKernel_v4000>);
static_assert(kSame<decltype(Api::cuIpcGetMemHandle), PFN_cuIpcGetMemHandle_v4010>);
static_assert(kSame<decltype(Api::cuIpcOpenMemHandle), PFN_cuIpcOpenMemHandle_v11000>);
static_assert(kSame<decltype(Api::cuIpcCloseMemHandle), PFN_cuIpcCloseMemHandle_v4010>);
static_assert(kSame<decltype(Api::cuDeviceGetUuidOfGpu), PFN_cuDeviceGetUuid_v9020>);
static_assert(kSame<decltype(Api::cuMemcpyBatchAsync13), PFN_cuMemcpyBatchAsync_v13000>);
static_assert(kSame<decltype(Api::cuMemcpyBatchAsync12), PFN_cuMemcpyBatchAsync_v12080>);

template <typename A, typename B>
constexpr bool SameNumber(A ours, B theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}

static_assert(SameNumber(Result::kSuccess, CUDA_SUCCESS));
static_assert(SameNumber(Result::kInvalidValue, CUDA_ERROR_INVALID_VALUE));
static_assert(SameNumber(Result::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY));
static_assert(SameNumber(Result::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED));
static_assert(SameNumber(Result::kDeinitialized, CUDA_ERROR_DEINITIALIZED));
static_assert(SameNumber(Result::kStubLibrary, CUDA_ERROR_STUB_LIBRARY));
static_assert(SameNumber(Result::kCallRequiresNewerDriver, CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER));
static_assert(SameNumber(Result::kDeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE));
static_assert(SameNumber(Result::kNoDevice, CUDA_ERROR_NO_DEVICE));
static_assert(SameNumber(Result::kInvalidDevice, CUDA_ERROR_INVALID_DEVICE));
static_assert(SameNumber(Result::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT));
static_assert(SameNumber(Result::kMapFailed, CUDA_ERROR_MAP_FAILED));
static_assert(SameNumber(Result::kAlreadyMapped, CUDA_ERROR_ALREADY_MAPPED));
static_assert(SameNumber(Result::kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU));
static_assert(SameNumber(Result::kEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE));
static_assert(SameNumber(Result::kPeerAccessUnsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED));
static_assert(SameNumber(Result::kInvalidPtx, CUDA_ERROR_INVALID_PTX));
static_assert(SameNumber(Result::kNvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE));
static_assert(SameNumber(Result::kJitCompilerNotFound, CUDA_ERROR_JIT_COMPILER_NOT_FOUND));
static_assert(SameNumber(Result::kUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
static_assert(SameNumber(Result::kContained, CUDA_ERROR_CONTAINED));
static_assert(SameNumber(Result::kOperatingSystem, CUDA_ERROR_OPERATING_SYSTEM));
static_assert(SameNumber(Result::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE));
static_assert(SameNumber(Result::kNotFound, CUDA_ERROR_NOT_FOUND));
static_assert(SameNumber(Result::kNotReady, CUDA_ERROR_NOT_READY));
static_assert(SameNumber(Result::kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS));
static_assert(SameNumber(Result::kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT));
static_assert(SameNumber(Result::kPrimaryContextActive, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE));
static_assert(SameNumber(Result::kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED));
static_assert(SameNumber(Result::kAssert, CUDA_ERROR_ASSERT));
static_assert(SameNumber(Result::kTooManyPeers, CUDA_ERROR_TOO_MANY_PEERS));
static_assert(SameNumber(Result::kHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR));
static_assert(SameNumber(Result::kIllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION));
static_assert(SameNumber(Result::kMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS));
static_assert(SameNumber(Result::kInvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE));
static_assert(SameNumber(Result::kInvalidPc, CUDA_ERROR_INVALID_PC));
static_assert(SameNumber(Result::kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED));
static_assert(SameNumber(Result::kNotSupported, CUDA_ERROR_NOT_SUPPORTED));
static_assert(SameNumber(Result::kSystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY));
static_assert(SameNumber(Result::kSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH));
static_assert(SameNumber(Result::kCompatNotSupportedOnDevice,
                         CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE));
static_assert(SameNumber(Result::kStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
static_assert(SameNumber(Result::kUnknown, CUDA_ERROR_UNKNOWN));
static_assert(SameNumber(Attribute::kMultiprocessorCount,
                         CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(SameNumber(Attribute::kUnifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING));
static_assert(SameNumber(Attribute::kComputeCapabilityMajor,
                         CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(SameNumber(Attribute::kComputeCapabilityMinor,
                         CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(SameNumber(Attribute::kIpcEventSupported, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED));

static_assert(SameNumber(kScheduleBlockingSync, CU_CTX_SCHED_BLOCKING_SYNC));
static_assert(SameNumber(kStreamNonBlocking, CU_STREAM_NON_BLOCKING));
static_assert(SameNumber(kEventBlockingSync, CU_EVENT_BLOCKING_SYNC));
static_assert(SameNumber(kEventDisableTiming, CU_EVENT_DISABLE_TIMING));
static_assert(SameNumber(kHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE));
static_assert(SameNumber(kHostAllocDeviceMap, CU_MEMHOSTALLOC_DEVICEMAP));
static_assert(SameNumber(kIpcLazyEnablePeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
static_assert(SameNumber(kCaptureModeGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL));
static_assert(SameNumber(kCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED));
static_assert(sizeof(CUstreamCaptureMode) == sizeof(int));
static_assert(SameNumber(kSourceAccessOrderStream, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM));

static_assert(std::is_same_v<Ordinal, CUdevice>);
static_assert(sizeof(DevicePointer) == sizeof(CUdeviceptr));
static_assert(sizeof(IpcHandle) == CU_IPC_HANDLE_SIZE && alignof(IpcHandle) == 1);
static_assert(sizeof(Uuid) == sizeof(CUuuid) && alignof(Uuid) == alignof(CUuuid));
static_assert(sizeof(CopyAttributes) == sizeof(CUmemcpyAttributes));
static_assert(offsetof(CopyAttributes, source_access_order) ==
              offsetof(CUmemcpyAttributes, srcAccessOrder));
static_assert(offsetof(CopyAttributes, source_hint) == offsetof(CUmemcpyAttributes, srcLocHint));
static_assert(offsetof(CopyAttributes, destination_hint) ==
              offsetof(CUmemcpyAttributes, dstLocHint));
static_assert(offsetof(CopyAttributes, flags) == offsetof(CUmemcpyAttributes, flags));
static_assert(offsetof(MemoryLocation, type) == offsetof(CUmemLocation, type));
static_assert(offsetof(MemoryLocation, id) == offsetof(CUmemLocation, id));

}  // namespace
}  // namespace kvpool::cuda
