#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "core/ledger/cache_calls.h"
#include "core/ledger/calls.h"
#include "core/ledger/events.h"
#include "core/ledger/status.h"

namespace kvpool::test {

// Calls and what they lead to as people write them down, so that a failed run can be replayed by
// hand. A session is `s` and its number, a pending call `#` and its number, a block
// `id@generation`.

// Session ids count from 1.
SessionId MakeSessionId(uint32_t number);

std::string ToText(const SessionId& session);
std::string ToText(PendingId id);
std::string ToText(ProcessId process);
std::string ToText(const std::vector<BlockId>& blocks);
std::string ToText(std::span<const BlockRef> blocks);
std::string ToText(const AllocAnswer& answer);
std::string ToText(const PublishAnswer& answer);
std::string ToText(const BlockInfo& info);
std::string ToText(const LedgerEvent& event);
std::string ToText(const OpenSessionCall& call);
std::string ToText(const Caller& caller);
std::string ToText(const AllocCall& call);
std::string ToText(const IncRefCall& call);
std::string ToText(const DecRefCall& call);
std::string ToText(const PublishCall& call);
std::string ToText(const LookupCall& call);
std::string ToText(const EvictCall& call);
std::string ToText(const PinCall& call);

}  // namespace kvpool::test
