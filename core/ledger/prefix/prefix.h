#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kvpool {

// Limits of what a prefix is made of, in bytes.
inline constexpr size_t kMaxAdapterBytes = 1024;
inline constexpr size_t kMaxSaltBytes = 1024;
inline constexpr size_t kMinBlockHashBytes = 16;
inline constexpr size_t kMaxBlockHashBytes = 32;
inline constexpr size_t kMaxExtraHashBytes = 64;

// What the blocks of a prefix are told by. Keys of the two kinds never meet.
enum class PrefixKind : uint8_t {
  kTokens,  // Tokens and extras, which are hashed here.
  kHashes,  // A hash a block, by the caller.
};

// What a prefix is a prefix of. Keys of different spaces never meet. An adapter or a salt that
// was not given is the empty one.
struct PrefixSpace {
  absl::string_view fingerprint{};  // The pool's.
  absl::string_view tenant{};
  absl::string_view model_id{};
  absl::string_view adapter{};
  absl::string_view salt{};
};

// What tokens alone do not say of some of them: that they stand for an image, and which.
struct PrefixExtra {
  uint32_t first_token = 0;  // Counted from the first of Prefix::tokens.
  uint32_t token_count = 0;
  absl::string_view hash{};  // Of the whole input. The same hash means as many tokens.
};

// A prefix as a caller gives it: by tokens, or by its own hashes. It owns nothing.
struct Prefix {
  PrefixSpace space{};
  std::span<const uint32_t> tokens{};
  std::span<const absl::string_view> block_hashes{};
  absl::string_view parent_key{};  // It goes on after the block of that key. Empty: from the start.
  std::span<const PrefixExtra> extras{};

  PrefixKind kind() const {
    return block_hashes.empty() ? PrefixKind::kTokens : PrefixKind::kHashes;
  }
};

// INVALID_ARGUMENT unless the prefix is one:
//
// * tokens or block hashes, not both; extras with tokens alone;
// * each block hash of 16 to 32 bytes; a parent key of 32 bytes or none;
// * extras in order, each of a token at least, inside the tokens, not overlapping, with a hash of
//   1 to 64 bytes;
// * an adapter and a salt of at most 1,024 bytes each.
absl::Status CheckPrefix(const Prefix& prefix);

}  // namespace kvpool
