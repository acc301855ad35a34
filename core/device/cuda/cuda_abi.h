#pragma once

#include <cstddef>
#include <cstdint>

namespace kvpool::cuda {

// The part of the CUDA driver's binary interface that is called here, declared without NVIDIA's
// headers, so that one binary is built anywhere and runs with and without a driver. Where a CUDA
// toolkit is found, abi_check.cc holds every line of it to the toolkit's own `cuda.h`.

// CUresult: the results that are told apart; every other one is an error like any.
enum class Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kStubLibrary = 34,
  kCallRequiresNewerDriver = 36,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kMapFailed = 205,
  kAlreadyMapped = 208,
  kNoBinaryForGpu = 209,
  kEccUncorrectable = 214,
  kPeerAccessUnsupported = 217,
  kInvalidPtx = 218,
  kNvlinkUncorrectable = 220,
  kJitCompilerNotFound = 221,
  kUnsupportedPtxVersion = 222,
  kContained = 226,
  kOperatingSystem = 304,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchTimeout = 702,
  kPrimaryContextActive = 708,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kTooManyPeers = 711,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kSystemNotReady = 802,
  kSystemDriverMismatch = 803,
  kCompatNotSupportedOnDevice = 804,
  kStreamCaptureUnsupported = 900,
  kUnknown = 999,
};

// CUdevice_attribute.
enum class Attribute : int {
  kMultiprocessorCount = 16,
  kUnifiedAddressing = 41,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kIpcEventSupported = 125,
};

using Ordinal = int;             // CUdevice.
using DevicePointer = uint64_t;  // CUdeviceptr: never to be followed on the host.
using Context = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;

struct Uuid {
  char bytes[16];
};

// CUipcMemHandle, passed by value to whoever opens it.
struct IpcHandle {
  char bytes[64];
};

struct MemoryLocation {
  int type = 0;
  int id = 0;
};

// CUmemcpyAttributes.
struct CopyAttributes {
  int source_access_order = 0;
  MemoryLocation source_hint = {};
  MemoryLocation destination_hint = {};
  unsigned int flags = 0;
};

inline constexpr unsigned int kScheduleBlockingSync = 0x4;     // CU_CTX_SCHED_BLOCKING_SYNC
inline constexpr unsigned int kStreamNonBlocking = 0x1;        // CU_STREAM_NON_BLOCKING
inline constexpr unsigned int kEventBlockingSync = 0x1;        // CU_EVENT_BLOCKING_SYNC
inline constexpr unsigned int kEventDisableTiming = 0x2;       // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned int kHostAllocPortable = 0x1;        // CU_MEMHOSTALLOC_PORTABLE
inline constexpr unsigned int kHostAllocDeviceMap = 0x2;       // CU_MEMHOSTALLOC_DEVICEMAP
inline constexpr unsigned int kIpcLazyEnablePeerAccess = 0x1;  // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
inline constexpr int kCaptureModeGlobal = 0;                   // CU_STREAM_CAPTURE_MODE_GLOBAL
inline constexpr int kCaptureModeRelaxed = 2;                  // CU_STREAM_CAPTURE_MODE_RELAXED
// CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
inline constexpr int kSourceAccessOrderStream = 1;

}  // namespace kvpool::cuda
