#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

#include "core/ledger/prefix/prefix_hasher.h"
#include "kvpool/v1/block.pb.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {

// The keys of a request's prefix, for a call in the session's name; of `max_blocks` blocks at
// most. Errors: INVALID_ARGUMENT: over the limits, no prefix (core/ledger/prefix/prefix.h says
// what is one), or a session without a model.
absl::StatusOr<PrefixKeys> ToPrefixKeys(const SessionCall& session, const Peer& peer,
                                        const v1::Prefix& message, size_t max_blocks);

void FromKey(const std::optional<PrefixKey>& key, std::string& bytes);

}  // namespace kvpool::server
