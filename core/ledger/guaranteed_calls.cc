#include "core/ledger/guaranteed_calls.h"

#include <algorithm>
#include <limits>

namespace kvpool {

void GuaranteedCalls::Add(uint64_t number, const Caller& caller) {
  calls_[number].caller = caller;
  Session& session = sessions_[caller.session];
  session.tenant = caller.tenant;
  ++session.calls;
  lines_[caller.tenant].Add(number);
}

void GuaranteedCalls::Remove(uint64_t number) {
  SetNeed(number, std::nullopt);
  const auto call = calls_.find(number);
  const Caller caller = call->second.caller;
  calls_.erase(call);
  const auto session = sessions_.find(caller.session);
  if (--session->second.calls == 0) sessions_.erase(session);
  const auto line = lines_.find(caller.tenant);
  line->second.Remove(number);
  if (line->second.is_empty()) lines_.erase(line);
}

void GuaranteedCalls::SetNeed(uint64_t number, std::optional<Need> need) {
  Call& call = calls_.at(number);
  if (call.need == need) return;
  Session& session = sessions_.at(call.caller.session);
  FirstFit& line = lines_.at(call.caller.tenant);
  if (call.need.has_value()) {
    const auto group = session.by_need.find(*call.need);
    const bool is_covered = call.need->guarantee <= session.unfilled;
    const bool was_first = *group->second.begin() == number;
    group->second.erase(number);
    if (is_covered && was_first) {
      line.SetNeed(number, std::nullopt);
      if (!group->second.empty()) line.SetNeed(*group->second.begin(), call.need->blocks);
    }
    if (group->second.empty()) session.by_need.erase(group);
  }
  call.need = need;
  if (!need.has_value()) return;
  std::set<uint64_t>& group = session.by_need[*need];
  const std::optional<uint64_t> first =
      group.empty() ? std::nullopt : std::optional(*group.begin());
  group.insert(number);
  if (need->guarantee > session.unfilled || *group.begin() != number) return;
  if (first.has_value()) line.SetNeed(*first, std::nullopt);
  line.SetNeed(number, need->blocks);
}

void GuaranteedCalls::SetUnfilled(SessionSlot slot, int64_t unfilled) {
  const auto found = sessions_.find(slot);
  if (found == sessions_.end() || found->second.unfilled == unfilled) return;
  Session& session = found->second;
  FirstFit& line = lines_.at(session.tenant);
  const auto above = [&](int64_t covered) {
    return session.by_need.upper_bound(
        {.guarantee = covered, .blocks = std::numeric_limits<uint32_t>::max()});
  };
  const auto last = above(std::max(session.unfilled, unfilled));
  for (auto group = above(std::min(session.unfilled, unfilled)); group != last; ++group) {
    const bool is_covered = unfilled > session.unfilled;
    line.SetNeed(*group->second.begin(),
                 is_covered ? std::optional(group->first.blocks) : std::nullopt);
  }
  session.unfilled = unfilled;
}

std::optional<uint64_t> GuaranteedCalls::Find(absl::FunctionRef<uint32_t(TenantSlot)> room) const {
  std::optional<uint64_t> first;
  for (const auto& [tenant, line] : lines_) {
    const std::optional<uint64_t> found = line.Find(room(tenant));
    if (found.has_value() && (!first.has_value() || *found < *first)) first = found;
  }
  return first;
}

}  // namespace kvpool
