#include "core/ledger/prefix/prefix_hasher.h"

#include <algorithm>
#include <span>

#include "absl/strings/string_view.h"

#include "core/check.h"
#include "core/ledger/prefix/sha256_stream.h"

namespace kvpool {
namespace {

// All of one size, so that none begins another.
constexpr absl::string_view kRootTag = "kvroot.1";
constexpr absl::string_view kTokensTag = "kvtoks.1";
constexpr absl::string_view kHashTag = "kvhash.1";

// A field as fingerprints have them: name, type ('s' for text, 'b' for bytes) and value.
void AppendField(absl::string_view name, char type, absl::string_view value, Sha256Stream& stream) {
  stream.AppendNumber(uint64_t{name.size()});
  stream.Append(name);
  stream.Append(&type, 1);
  stream.AppendNumber(uint64_t{value.size()});
  stream.Append(value);
}

PrefixKey RootKey(const PrefixSpace& space, PrefixKind kind, Sha256Stream& stream) {
  stream.Append(kRootTag);
  AppendField("kind", 's', kind == PrefixKind::kTokens ? "tokens" : "hashes", stream);
  AppendField("fingerprint", 's', space.fingerprint, stream);
  AppendField("tenant", 's', space.tenant, stream);
  AppendField("model_id", 's', space.model_id, stream);
  AppendField("adapter", 's', space.adapter, stream);
  AppendField("salt", 'b', space.salt, stream);
  return stream.Finish();
}

// A range of tokens by its ends.
struct TokenRange {
  uint64_t begin;
  uint64_t end;
};

TokenRange Overlap(const PrefixExtra& extra, const TokenRange& block) {
  return {std::max(uint64_t{extra.first_token}, block.begin),
          std::min(uint64_t{extra.first_token} + extra.token_count, block.end)};
}

// Goes through the blocks of tokens and, at the same time, through the extras, which are in order.
class TokenBlocks {
 public:
  TokenBlocks(const Prefix& prefix, uint32_t block_size)
      : tokens_(prefix.tokens), extras_(prefix.extras), block_size_(block_size) {}

  // The next block's key.
  PrefixKey Next(const PrefixKey& parent, Sha256Stream& stream) {
    const TokenRange block = {begin_, begin_ + block_size_};
    const std::span<const PrefixExtra> overlapping = TakeExtras(block);
    stream.Append(kTokensTag);
    stream.Append(parent.view());
    stream.AppendNumber(block_size_);
    stream.AppendNumber(static_cast<uint32_t>(overlapping.size()));
    stream.Append(tokens_.data() + block.begin, block_size_ * sizeof(uint32_t));
    for (const PrefixExtra& extra : overlapping) {
      const TokenRange range = Overlap(extra, block);
      stream.AppendNumber(static_cast<uint32_t>(range.begin - block.begin));
      stream.AppendNumber(static_cast<uint32_t>(range.end - range.begin));
      stream.AppendNumber(static_cast<uint32_t>(extra.hash.size()));
      stream.Append(extra.hash);
    }
    begin_ = block.end;
    return stream.Finish();
  }

 private:
  // Those that overlap the block. The last may reach into the next one.
  std::span<const PrefixExtra> TakeExtras(const TokenRange& block) {
    while (!extras_.empty() && IsBefore(extras_.front(), block)) extras_ = extras_.subspan(1);
    size_t count = 0;
    while (count < extras_.size() && extras_[count].first_token < block.end) ++count;
    return extras_.first(count);
  }
  static bool IsBefore(const PrefixExtra& extra, const TokenRange& block) {
    return uint64_t{extra.first_token} + extra.token_count <= block.begin;
  }

  const std::span<const uint32_t> tokens_;
  std::span<const PrefixExtra> extras_;  // Those that do not end before `begin_`.
  const uint32_t block_size_;
  uint64_t begin_ = 0;  // Of the next block.
};

PrefixKey HashBlockKey(const PrefixKey& parent, absl::string_view hash, Sha256Stream& stream) {
  stream.Append(kHashTag);
  stream.Append(parent.view());
  stream.AppendNumber(static_cast<uint32_t>(hash.size()));
  stream.Append(hash);
  return stream.Finish();
}

}  // namespace

PrefixHasher::PrefixHasher()
    : sha256_(EVP_MD_fetch(/*ctx=*/nullptr, "SHA256", /*properties=*/nullptr)) {
  KVPOOL_CHECK(sha256_ != nullptr);
}

PrefixKeys PrefixHasher::Hash(const Prefix& prefix, uint32_t block_size, size_t max_blocks) const {
  KVPOOL_CHECK(block_size > 0);
  Sha256Stream stream(sha256_.get());
  PrefixKeys keys;
  keys.root = RootKey(prefix.space, prefix.kind(), stream);
  if (!prefix.parent_key.empty()) keys.parent = PrefixKey::FromBytes(prefix.parent_key);
  PrefixKey last = keys.parent.value_or(keys.root);
  if (prefix.kind() == PrefixKind::kHashes) {
    const size_t count = std::min(prefix.block_hashes.size(), max_blocks);
    keys.blocks.reserve(count);
    for (const absl::string_view hash : prefix.block_hashes.first(count)) {
      keys.blocks.push_back(last = HashBlockKey(last, hash, stream));
    }
    return keys;
  }
  const size_t count = std::min(prefix.tokens.size() / block_size, max_blocks);
  keys.blocks.reserve(count);
  TokenBlocks blocks(prefix, block_size);
  while (keys.blocks.size() < count) keys.blocks.push_back(last = blocks.Next(last, stream));
  return keys;
}

}  // namespace kvpool
