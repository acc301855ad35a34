#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/ledger/ledger.h"
#include "tests/model/ledger/model_state.h"
#include "tests/model/ledger/verdict.h"

namespace kvpool::test {

// What the documents say of a call as things stand: that it is right, or what is wrong with it.

Verdicts CheckSession(const ModelState& state, const Caller& caller, bool may_be_joined);
// All that is wrong with the call, since nothing says what is found first.
Verdicts CheckOpen(const ModelState& state, const OpenSessionCall& call);
// Whether there is anything of the session to end or to vouch for.
Verdicts CheckVouch(const ModelState& state, const SessionId& id);

Verdicts CheckList(const ModelState& state, std::span<const BlockRef> blocks);
// Whether the session can drop each entry, in order.
Verdicts CheckDrops(const ModelState& state, const SessionId& session,
                    std::span<const BlockRef> blocks);
// Whether the session holds each entry, and for writing may write to it.
Verdicts CheckHolds(const ModelState& state, const SessionId& session,
                    std::span<const BlockRef> blocks, bool is_writing);
Verdicts CheckIncs(const ModelState& state, const SessionId& session,
                   std::span<const BlockRef> blocks);
// Whether there is room for the session to hold each of those blocks.
Verdicts CheckTakes(const ModelState& state, const SessionId& session,
                    std::span<const uint32_t> blocks);
// Of a pin whose turn it is.
Verdicts CheckPin(const ModelState& state, const ModelState::Pin& pin);

// The answer remembered under the key, with what it gives; null where there is none.
const ModelState::Remembered* Recall(const ModelState& state, const SessionId& session,
                                     uint64_t key, const std::string& request, Verdicts* verdicts);
// Of a call that may be a repeat: `is_new` tells whether it is to be done.
Verdicts CheckKey(const ModelState& state, const SessionId& session, uint64_t key,
                  const std::string& request, bool* is_new, const ModelState::Remembered** known);

}  // namespace kvpool::test
