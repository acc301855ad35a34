#pragma once

#include <set>

#include "core/ledger/cache_calls.h"
#include "tests/model/ledger/model_state.h"
#include "tests/model/ledger/verdict.h"

namespace kvpool::test {

// As model_rules.h, of calls on the prefix cache.

Verdicts CheckPublish(const ModelState& state, const PublishCall& call);
// Of one that acquires: `hits` is what it finds.
Verdicts CheckLookup(const ModelState& state, const LookupCall& call,
                     std::span<const uint32_t> hits);
// Of one with a list. `listed`: what it is to make unfindable.
Verdicts CheckEvict(const ModelState& state, const EvictCall& call, std::set<uint32_t>* listed);

}  // namespace kvpool::test
