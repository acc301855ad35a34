#include <algorithm>

#include "absl/strings/str_cat.h"

#include "tests/model/ledger/cache_rules.h"
#include "tests/model/ledger/call_text.h"
#include "tests/model/ledger/ledger_model.h"

namespace kvpool::test {

// Finding is a use, from the root on.
void LedgerModel::AcquireHits(const SessionId& session, const std::vector<uint32_t>& hits) {
  for (const uint32_t block : hits) {
    AddRef(block, session, TraceOperation::kAcquire);
    state_.blocks[block].use = ++state_.last_use;
    state_.blocks[block].is_done = false;
  }
}

void LedgerModel::Unfind(uint32_t block) {
  state_.findable.erase(*state_.blocks[block].sealed);
  state_.blocks[block].is_done = false;
  Note(block, TraceOperation::kEvict);
  FreeIfDone(block, state_.options.eviction_policy == EvictionPolicyName::kLeafLru);
}

void LedgerModel::Publish(const PublishCall& call, TimePoint now,
                          const absl::StatusOr<PublishAnswer>& result, const Seen& seen) {
  Begin(now, seen);
  const SessionId& session = call.caller.session;
  Verdicts verdicts = Admit(call.caller, /*may_be_joined=*/false);
  bool is_new = false;
  PublishAnswer answer;
  if (verdicts.front().ok()) {
    const ModelState::Remembered* known = nullptr;
    verdicts = CheckKey(state_, session, call.idempotency_key, ToText(call), &is_new, &known);
    if (known != nullptr && verdicts.front().ok()) answer = std::get<PublishAnswer>(known->answer);
    if (is_new) verdicts = CheckList(state_, call.blocks);
    if (is_new && verdicts.front().ok()) verdicts = CheckPublish(state_, call);
  }
  Judge("Publish", verdicts, result.status());
  const bool is_done = is_new && verdicts.front().ok();
  if (is_done) {
    for (uint32_t i = 0; i < call.blocks.size(); ++i) {
      const uint32_t block = ToIndex(call.blocks[i].block);
      const size_t place = call.skip + i;
      const PrefixKey& key = call.prefix->blocks[place];
      const auto known = state_.findable.find(key);
      if (known != state_.findable.end()) {
        const uint32_t other = known->second.block;
        const BlockRef ref{.block = BlockId{other}, .generation = state_.blocks[other].generation};
        if (other != block) answer.duplicates.push_back({.index = i, .known = ref});
        continue;
      }
      state_.findable[key] = {
          .block = block, .root = call.prefix->root, .parent = call.prefix->LastKey(place)};
      state_.blocks[block].sealed = key;
      state_.blocks[block].use = ++state_.last_use;
      ++answer.published;
      Note(block, TraceOperation::kPublish);
    }
    answer.last_key = call.prefix->LastKey(call.prefix->blocks.size());
    Remember(session, call.idempotency_key, ToText(call), answer);
  }
  if (result.ok() && *result != answer) {
    Complain(absl::StrCat("Publish: expected ", ToText(answer), ", got ", ToText(*result)));
  }
  Finish();
}

void LedgerModel::Lookup(const LookupCall& call, TimePoint now,
                         const absl::StatusOr<LookupAnswer>& result, const Seen& seen) {
  Begin(now, seen);
  const SessionId& session = call.caller.session;
  Verdicts verdicts = Admit(call.caller, /*may_be_joined=*/false);
  bool is_new = false;
  LookupAnswer answer;
  std::vector<uint32_t> hits;
  if (verdicts.front().ok()) {
    const ModelState::Remembered* known = nullptr;
    // One that does not acquire gives nothing that a lost answer could leak.
    const uint64_t key = call.acquire ? call.idempotency_key : 0;
    verdicts = CheckKey(state_, session, key, ToText(call), &is_new, &known);
    if (known != nullptr && verdicts.front().ok()) answer = std::get<LookupAnswer>(known->answer);
    hits = state_.Match(*call.prefix, SIZE_MAX);
    if (is_new && state_.sessions.at(session).model_id.empty()) {
      verdicts = Error(absl::StatusCode::kInvalidArgument);
    } else if (is_new && call.acquire) {
      verdicts = CheckLookup(state_, call, hits);
    }
  }
  Judge("Lookup", verdicts, result.status());
  if (is_new && verdicts.front().ok()) {
    for (const uint32_t block : hits) {
      answer.blocks.push_back(
          {.block = BlockId{block}, .generation = state_.blocks[block].generation});
    }
    answer.last_key = call.prefix->LastKey(hits.size());
    if (call.acquire) {
      AcquireHits(session, hits);
      Remember(session, call.idempotency_key, ToText(call), answer);
    }
  }
  if (result.ok() && *result != answer) {
    Complain(absl::StrCat("Lookup: expected ", ToText(answer.blocks), ", got ",
                          ToText(result->blocks), ", or another last key"));
  }
  Finish();
}

void LedgerModel::Evict(const EvictCall& call, TimePoint now,
                        const absl::StatusOr<EvictAnswer>& result, const Seen& seen) {
  Begin(now, seen);
  Verdicts verdicts = Admit(call.caller, /*may_be_joined=*/false);
  std::set<uint32_t> listed;
  if (verdicts.front().ok()) {
    verdicts = CheckList(state_, call.blocks);
    if (!call.blocks.empty() && call.count > 0) {
      verdicts = Error(absl::StatusCode::kInvalidArgument);
    }
    if (verdicts.front().ok()) verdicts = CheckEvict(state_, call, &listed);
  }
  Judge("Evict", verdicts, result.status());
  // By count, it may go on with what a reset left.
  if (call.count > 0) may_drop_.reset();
  if (result.ok() && complaint_.empty()) {
    FollowEvicted(call, *result);
    const bool is_all = call.blocks.empty()
                            ? result->blocks.size() == call.count ||
                                  state_.Leaves(std::string(call.caller.tenant), true).empty()
                            : result->blocks.size() == listed.size();
    for (const BlockId block : result->blocks) {
      if (!call.blocks.empty() && !listed.contains(ToIndex(block))) {
        Complain("Evict: one that is not listed");
      }
    }
    if (!is_all || (call.blocks.empty() && result->blocks.size() > call.count)) {
      Complain("Evict: more, or fewer, than it should");
    }
  }
  Finish();
}

// The blocks become unfindable in the answer's order.
void LedgerModel::FollowEvicted(const EvictCall& call, const EvictAnswer& answer) {
  const std::string tenant(call.caller.tenant);
  uint32_t freed = 0;
  for (const BlockId id : answer.blocks) {
    const uint32_t block = ToIndex(id);
    if (!state_.IsFindable(block) || state_.HasChildren(block)) {
      return Complain(absl::StrCat("Evict: ", block, " is no leaf"));
    }
    if (call.blocks.empty()) {
      const std::vector<uint32_t> leaves = state_.Leaves(tenant, /*is_cached=*/true);
      const bool is_lru = state_.options.eviction_policy == EvictionPolicyName::kLeafLru;
      if (std::ranges::count(leaves, block) == 0 || (is_lru && leaves.front() != block)) {
        return Complain(absl::StrCat("Evict: ", block, " is not the one to go next"));
      }
      const auto is_done = [this](uint32_t each) { return state_.blocks[each].is_done; };
      if (!is_lru && !is_done(block) && std::ranges::any_of(leaves, is_done)) {
        return Complain(absl::StrCat("Evict: ", block, " goes before one that is done with"));
      }
    }
    Unfind(block);
    freed += state_.blocks[block].is_free ? 1U : 0U;
  }
  if (answer.freed != freed) {
    Complain(absl::StrCat("Evict: expected freed=", freed, ", got ", answer.freed));
  }
}

void LedgerModel::ResetPrefixes(std::optional<absl::string_view> tenant, TimePoint now,
                                uint32_t result, const Seen& seen) {
  Begin(now, seen);
  uint32_t forgotten = 0;
  uint64_t left = 0;
  for (uint32_t i = 0; i < state_.blocks.size(); ++i) {
    ModelState::Block& block = state_.blocks[i];
    if (!state_.IsFindable(i)) continue;
    if (tenant.has_value() && absl::string_view(block.tenant) != *tenant) continue;
    ++forgotten;
    block.is_left = block.refs.empty();
    block.is_old = IsSliced() && !block.is_left;
    left += block.is_left ? 1U : 0U;
    block.is_done = false;
    state_.findable.erase(*block.sealed);
    if (!block.is_left) Note(i, TraceOperation::kEvict);
  }
  const uint64_t slice = state_.options.limits.reclaim_slice;
  if (may_drop_.has_value()) *may_drop_ += slice;
  must_drop_ = std::min(slice, left);
  if (result != forgotten) {
    Complain(absl::StrCat("ResetPrefixes: expected ", forgotten, ", got ", result));
  }
  Finish();
}

}  // namespace kvpool::test
