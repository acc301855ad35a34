#include "server/rpc/prefix_convert.h"

#include <vector>

#include "absl/strings/str_cat.h"

#include "core/pool.h"
#include "server/limits.h"

namespace kvpool::server {
namespace {

std::vector<PrefixExtra> ToExtras(const v1::Prefix& message) {
  std::vector<PrefixExtra> extras;
  extras.reserve(static_cast<size_t>(message.extras_size()));
  for (const v1::Prefix::Extra& extra : message.extras()) {
    extras.push_back({.first_token = extra.first_token(),
                      .token_count = extra.token_count(),
                      .hash = extra.hash()});
  }
  return extras;
}

}  // namespace

absl::StatusOr<PrefixKeys> ToPrefixKeys(const SessionCall& session, const Peer& peer,
                                        const v1::Prefix& message, size_t max_blocks) {
  if (message.tokens_size() > static_cast<int>(kMaxTokensPerCall)) {
    return absl::InvalidArgumentError(absl::StrCat("prefix.tokens has ", message.tokens_size(),
                                                   " entries; one call takes at most ",
                                                   kMaxTokensPerCall));
  }
  const std::vector<absl::string_view> block_hashes(message.block_hashes().begin(),
                                                    message.block_hashes().end());
  const std::vector<PrefixExtra> extras = ToExtras(message);
  return session.pool->HashPrefix(
      {.session = session.session, .tenant = peer.tenant},
      {.space = {.adapter = message.space().adapter(), .salt = message.space().salt()},
       .tokens = {message.tokens().data(), static_cast<size_t>(message.tokens_size())},
       .block_hashes = block_hashes,
       .parent_key = message.parent_key(),
       .extras = extras},
      max_blocks);
}

void FromKey(const std::optional<PrefixKey>& key, std::string& bytes) {
  if (key.has_value()) bytes = std::string(key->view());
}

}  // namespace kvpool::server
