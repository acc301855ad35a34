#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

namespace kvpool {

// The product of `factors`, or nothing where it passes 64 bits on the way. Requires factors > 0.
inline std::optional<uint64_t> CheckedProduct(std::initializer_list<uint64_t> factors) {
  uint64_t product = 1;
  for (const uint64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return std::nullopt;
  }
  return product;
}

// The sum of `a` and `b`, or nothing where it passes 64 bits.
inline std::optional<uint64_t> CheckedSum(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

// `value` rounded up to a multiple of `alignment`, or nothing where that passes 64 bits. Requires
// that `alignment` is a power of two.
inline std::optional<uint64_t> CheckedAlignUp(uint64_t value, uint64_t alignment) {
  const std::optional<uint64_t> sum = CheckedSum(value, alignment - 1);
  if (!sum.has_value()) return std::nullopt;
  return *sum & ~(alignment - 1);
}

}  // namespace kvpool
