#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kvpool {

// How the elements of one side (K or V) of a layer are stored.
enum class Dtype : uint8_t {
  kFp32,
  kFp16,
  kBf16,
  kFp8,     // E4M3; its scale is kept outside the block.
  kNvfp4,   // E2M1, an E4M3 scale for each 16 elements.
  kTurbo8,  // 8 bits, a BF16 scale for each 16 elements.
  kTurbo4,  // 4, 3 and 2 bits, an E4M3 scale for each 16 elements.
  kTurbo3,
  kTurbo2,
  kRaw,  // Bytes without known elements.
};

// The formats of a layer's K and V side.
struct DtypePair {
  Dtype k{};
  Dtype v{};

  bool operator==(const DtypePair&) const = default;
};

// Bytes of one side of one block: elements first, scales right after them.
struct SideBytes {
  uint64_t data_bytes = 0;
  uint64_t scale_bytes = 0;

  bool operator==(const SideBytes&) const = default;
};

// The exact lower-case name, such as "turbo4".
absl::string_view DtypeName(Dtype dtype);

// Whether each 16 elements share a scale that is stored in the block.
bool HasScales(Dtype dtype);

// Reads the name of a format ("fp8": both sides) or of a pair ("fp8k_turbo4v", "fp8k4v"), exactly
// as listed. INVALID_ARGUMENT, listing every name, for any other.
absl::StatusOr<DtypePair> ParseDtype(absl::string_view name);

// The canonical name of a pair as ParseDtype reads it: one format's name where both are the same.
// Requires a pair that ParseDtype can return.
absl::string_view DtypePairName(DtypePair pair);

// Bytes that `elements` elements take. Requires a dtype other than kRaw.
// INVALID_ARGUMENT where `elements` is 0, is not a multiple of 16 for a format with scales, or
// where the bytes overflow 64 bits.
absl::StatusOr<SideBytes> BytesFor(Dtype dtype, uint64_t elements);

}  // namespace kvpool
