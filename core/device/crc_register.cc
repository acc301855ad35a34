#include "core/device/crc_register.h"

#include <array>
#include <cstddef>

namespace kvpool {
namespace {

constexpr uint32_t kCastagnoli = 0x82F63B78;  // Reflected: bit 31 is the coefficient of x^0.
constexpr uint32_t kOne = uint32_t{1} << 31;

// The product of two polynomials, modulo Castagnoli's.
constexpr uint32_t Multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kCastagnoli : 0);  // Times x.
  }
  return product;
}

// x^(8 * 2^k) for each k: what 2^k zero bytes multiply a register by.
constexpr std::array<uint32_t, 64> kZeros = [] {
  std::array<uint32_t, 64> powers{};
  powers[0] = kOne >> 8;
  for (size_t k = 1; k < powers.size(); ++k) powers[k] = Multiply(powers[k - 1], powers[k - 1]);
  return powers;
}();

// The register after that many zero bytes more.
uint32_t AppendZeros(uint32_t crc, uint64_t bytes) {
  for (size_t k = 0; bytes != 0; ++k, bytes >>= 1) {
    if ((bytes & 1) != 0) crc = Multiply(crc, kZeros[k]);
  }
  return crc;
}

}  // namespace

uint32_t JoinCrc(uint32_t crc, uint32_t next, uint64_t next_bytes) {
  return AppendZeros(crc, next_bytes) ^ next;
}

uint32_t FinishCrc(uint32_t crc, uint64_t bytes) {
  // A CRC32C's register starts with all ones, and is inverted in the end.
  constexpr uint32_t kOnes = 0xFFFFFFFF;
  return ~JoinCrc(kOnes, crc, bytes);
}

}  // namespace kvpool
