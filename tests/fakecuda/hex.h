#pragma once

#include <cstdint>
#include <string>

#include "core/device/cuda/cuda_abi.h"

namespace fakecuda {

// The bytes of a handle or a UUID as text, two digits each.
template <typename Bytes>
std::string ToHex(const Bytes& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char byte : bytes.bytes) {
    hex += kDigits[static_cast<uint8_t>(byte) >> 4];
    hex += kDigits[static_cast<uint8_t>(byte) & 15];
  }
  return hex;
}

// A handle from its text.
inline kvpool::cuda::IpcHandle FromHex(const std::string& hex) {
  kvpool::cuda::IpcHandle handle{};
  for (size_t i = 0; i < sizeof(handle.bytes) && 2 * i + 1 < hex.size(); ++i) {
    handle.bytes[i] = static_cast<char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return handle;
}

}  // namespace fakecuda
