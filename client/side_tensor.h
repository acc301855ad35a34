#pragma once

#include <cstdint>
#include <vector>

namespace kvpool::client {

// One side (K or V) of one layer of a mapping, every block of it, in the words of DLPack: what a
// DLTensor is filled in with. Its memory is the mapping's and valid as long; `shape` and `strides`
// are the description's own.
//
// The numbers are those of DLPack's header, version 1.1 (DLDeviceType, DLDataTypeCode).
struct SideTensor {
  static constexpr int32_t kCpu = 1;   // kDLCPU
  static constexpr int32_t kCuda = 2;  // kDLCUDA

  static constexpr uint8_t kUint = 1;     // kDLUInt
  static constexpr uint8_t kFloat = 2;    // kDLFloat
  static constexpr uint8_t kBfloat = 4;   // kDLBfloat
  static constexpr uint8_t kE4m3fn = 10;  // kDLFloat8_e4m3fn, since DLPack 1.1.

  void* data = nullptr;  // Where block 0 begins: on a GPU never to be followed on the host.
  int32_t device_type = kCpu;
  int32_t device_id = 0;  // Of this process; 0 on the host.
  uint8_t type_code = kUint;
  uint8_t type_bits = 8;
  uint16_t type_lanes = 1;
  // [blocks, tokens of a block, heads, elements of a head] of fp32, fp16, bf16 and fp8. Formats
  // that pack elements or keep scales beside them, and bytes without a meaning, are uint8 of
  // [blocks, bytes of a block].
  std::vector<int64_t> shape{};
  std::vector<int64_t> strides{};  // In elements, one a dimension.
  uint64_t byte_offset = 0;        // Always: `data` has it in it.
};

}  // namespace kvpool::client
