#include "core/ledger/prefix/prefix.h"

#include "absl/strings/str_cat.h"

#include "core/ledger/prefix/prefix_key.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

absl::Status CheckAtMost(absl::string_view name, size_t size, size_t limit) {
  if (size <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " has ", size, " bytes; at most ", limit, " are allowed"));
}

absl::Status CheckHashes(const Prefix& prefix) {
  if (prefix.block_hashes.empty()) return absl::OkStatus();
  if (!prefix.tokens.empty()) {
    return absl::InvalidArgumentError("tokens and block_hashes are both given");
  }
  if (!prefix.extras.empty()) {
    return absl::InvalidArgumentError("extras are given with block_hashes");
  }
  for (size_t i = 0; i < prefix.block_hashes.size(); ++i) {
    const size_t size = prefix.block_hashes[i].size();
    if (size >= kMinBlockHashBytes && size <= kMaxBlockHashBytes) continue;
    return absl::InvalidArgumentError(absl::StrCat("block_hashes[", i, "] has ", size,
                                                   " bytes, not ", kMinBlockHashBytes, " to ",
                                                   kMaxBlockHashBytes));
  }
  return absl::OkStatus();
}

absl::Status CheckExtras(const Prefix& prefix) {
  uint64_t covered = 0;  // Tokens before this may not be covered again.
  for (size_t i = 0; i < prefix.extras.size(); ++i) {
    const PrefixExtra& extra = prefix.extras[i];
    if (extra.hash.empty() || extra.hash.size() > kMaxExtraHashBytes) {
      return absl::InvalidArgumentError(absl::StrCat("extras[", i, "].hash has ", extra.hash.size(),
                                                     " bytes, not 1 to ", kMaxExtraHashBytes));
    }
    if (extra.token_count == 0) {
      return absl::InvalidArgumentError(absl::StrCat("extras[", i, "] covers no token"));
    }
    if (extra.first_token < covered) {
      return absl::InvalidArgumentError(
          absl::StrCat("extras[", i, "] begins at token ", extra.first_token,
                       ", before the end of the extra before it, ", covered));
    }
    covered = uint64_t{extra.first_token} + extra.token_count;
    if (covered > prefix.tokens.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("extras[", i, "] ends at token ", covered, " of ", prefix.tokens.size()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPrefix(const Prefix& prefix) {
  KVPOOL_RETURN_IF_ERROR(CheckAtMost("adapter", prefix.space.adapter.size(), kMaxAdapterBytes));
  KVPOOL_RETURN_IF_ERROR(CheckAtMost("salt", prefix.space.salt.size(), kMaxSaltBytes));
  if (!prefix.parent_key.empty() && prefix.parent_key.size() != PrefixKey::kBytes) {
    return absl::InvalidArgumentError(absl::StrCat("parent_key has ", prefix.parent_key.size(),
                                                   " bytes, not ", PrefixKey::kBytes));
  }
  KVPOOL_RETURN_IF_ERROR(CheckHashes(prefix));
  return CheckExtras(prefix);
}

}  // namespace kvpool
