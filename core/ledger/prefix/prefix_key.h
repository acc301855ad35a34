#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/string_view.h"

namespace kvpool {

// The key of a block in the prefix cache: a SHA-256 that covers the pool's fingerprint, tenant,
// model, adapter and salt, and all that comes before the block and in it. Two blocks with one key
// hold the same KV. See docs/prefix-keys.md.
struct PrefixKey {
  static constexpr size_t kBytes = 32;

  std::array<uint8_t, kBytes> bytes{};

  auto operator<=>(const PrefixKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H state, const PrefixKey& key) {
    return H::combine(std::move(state), key.prefix64());
  }

  // Requires bytes.size() == kBytes.
  static PrefixKey FromBytes(absl::string_view bytes) {
    PrefixKey key;
    std::memcpy(key.bytes.data(), bytes.data(), kBytes);
    return key;
  }

  absl::string_view view() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // Eight of its bytes, which are as good as a hash of it: nobody chooses a SHA-256.
  uint64_t prefix64() const {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
};

}  // namespace kvpool
