#pragma once

#include <cstdint>

#include "core/ledger/watch_calls.h"
#include "kvpool/v1/inspect.pb.h"

namespace kvpool::server {

// Fills `message`, which is empty but for its epoch, with what the event tells. `block_size` is the
// pool's.
void FromPrefixEvent(const PrefixEvent& event, uint32_t block_size,
                     v1::WatchPrefixesResponse& message);

}  // namespace kvpool::server
