#include "tests/model/cache/cache_model.h"

#include <algorithm>

#include "core/check.h"

namespace kvpool::test {
namespace {

constexpr const char* kFull = "RESOURCE_EXHAUSTED POOL_FULL";

uint32_t IdOf(const BlockRef& ref) { return ToIndex(ref.block); }

bool IsStale(const BlockRef& ref, const ModelBlock& block) {
  const auto generation = static_cast<uint64_t>(ref.generation);
  return generation != 0 && generation != block.generation;
}

uint32_t Less(uint32_t a, uint32_t b) { return a > b ? a - b : 0; }

}  // namespace

std::string CacheModel::Open(size_t session, const ModelSession& opened) {
  uint32_t unfilled = opened.guarantee;
  for (const auto& [other, state] : sessions_) unfilled += Unfilled(other);
  if (opened.guarantee > 0 && unfilled > CountFree() + CountCached()) {
    return "RESOURCE_EXHAUSTED GUARANTEE";
  }
  sessions_[session] = opened;
  return "";
}

void CacheModel::Close(size_t session) {
  const auto is_its = [session](const ModelDemand& demand) { return demand.session == session; };
  std::erase_if(grow_, is_its);
  std::erase_if(admit_, is_its);
  for (uint32_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].holders.erase(session) > 0) LetGo(i);
  }
  sessions_.erase(session);
}

std::string CacheModel::Judge(const ModelDemand& demand, bool is_first) const {
  if (demand.count > options_.num_blocks) return "INVALID_ARGUMENT UNSPECIFIED";
  uint32_t count = demand.count;
  uint32_t shared = 0;
  if (demand.prefix.has_value()) {
    const std::vector<uint32_t> found = Match(*demand.prefix, demand.count);
    count -= static_cast<uint32_t>(found.size());
    if (demand.max_new > 0) count = std::min(count, demand.max_new);
    for (const uint32_t id : found) {
      if (IsCached(blocks_[id])) {
        ++count;
      } else if (!blocks_[id].holders.contains(demand.session)) {
        ++shared;
      }
    }
  }
  if (count > QuotaRoom(sessions_.at(demand.session).tenant)) return "RESOURCE_EXHAUSTED QUOTA";
  return count > Room(demand.session, shared, is_first) ? kFull : "";
}

std::string CacheModel::Give(const ModelDemand& demand, const Given& given, uint32_t matched) {
  const size_t tenant = sessions_.at(demand.session).tenant;
  std::vector<uint32_t> found;
  if (demand.prefix.has_value()) found = Match(*demand.prefix, demand.count);
  if (found.size() != matched) return "another number of blocks is matched";
  uint32_t count = demand.count - matched;
  if (demand.max_new > 0) count = std::min(count, demand.max_new);
  if (given.size() != matched + count) return "another number of blocks is given";
  for (size_t i = 0; i < matched; ++i) {
    ModelBlock& block = blocks_[found[i]];
    if (IdOf(given[i]) != found[i] || IsStale(given[i], block)) return "another block is matched";
    ++block.holders[demand.session];
    block.use = ++last_use_;
  }
  const auto used = [&] {
    return std::ranges::count_if(
        blocks_, [&](const ModelBlock& block) { return !IsFree(block) && block.tenant == tenant; });
  };
  const uint32_t quota = options_.max_blocks_per_tenant;
  while (quota > 0 && used() + count > quota) EvictOne(tenant, given);
  while (CountFree() < count) EvictOne(std::nullopt, given);
  for (size_t i = matched; i < given.size(); ++i) {
    ModelBlock& block = blocks_[IdOf(given[i])];
    if (!IsFree(block)) return "a block is given that is not free";
    const uint64_t generation = block.generation + 1;
    block = {.holders = {{demand.session, 1}}, .tenant = tenant, .generation = generation};
    if (IsStale(given[i], block)) return "a block is given at another generation";
  }
  return "";
}

std::string CacheModel::IncRef(size_t session, const std::vector<BlockRef>& refs) {
  std::set<uint32_t> added;
  uint32_t cached = 0;
  uint32_t shared = 0;
  for (const BlockRef& ref : refs) {
    const ModelBlock& block = blocks_[IdOf(ref)];
    const bool is_held = block.holders.contains(session) || added.contains(IdOf(ref));
    if (!is_held && ref.generation == Generation{}) return "FAILED_PRECONDITION NOT_HELD";
    if (IsStale(ref, block)) return "FAILED_PRECONDITION STALE_BLOCK";
    if (IsFree(block)) return "FAILED_PRECONDITION NOT_LIVE";
    if (block.tenant != sessions_.at(session).tenant) return "PERMISSION_DENIED UNSPECIFIED";
    if (is_held) continue;
    added.insert(IdOf(ref));
    ++(IsCached(block) ? cached : shared);
  }
  if (cached > 0 && cached > Room(session, shared, /*is_first=*/true)) return kFull;
  for (const BlockRef& ref : refs) ++blocks_[IdOf(ref)].holders[session];
  return "";
}

std::string CacheModel::DecRef(size_t session, const std::vector<BlockRef>& refs,
                               Dropped& dropped) {
  std::map<uint32_t, uint32_t> dropping;
  for (const BlockRef& ref : refs) {
    const ModelBlock& block = blocks_[IdOf(ref)];
    const auto holder = block.holders.find(session);
    if (holder == block.holders.end() || dropping[IdOf(ref)] >= holder->second) {
      return "FAILED_PRECONDITION NOT_HELD";
    }
    if (IsStale(ref, block)) return "FAILED_PRECONDITION STALE_BLOCK";
    ++dropping[IdOf(ref)];
  }
  for (const auto& [id, count] : dropping) {
    ModelBlock& block = blocks_[id];
    if ((block.holders[session] -= count) > 0) continue;
    block.holders.erase(session);
    if (!block.holders.empty()) continue;
    ++(block.is_findable ? dropped.cached : dropped.freed);
    LetGo(id);
  }
  return "";
}

std::string CacheModel::Publish(size_t session, const ModelPrefix& prefix, uint32_t skip,
                                const std::vector<BlockRef>& refs, Published& published) {
  if (skip + refs.size() != prefix.text.size()) return "INVALID_ARGUMENT UNSPECIFIED";
  std::set<uint32_t> named;
  for (const BlockRef& ref : refs) {
    if (!named.insert(IdOf(ref)).second) return "INVALID_ARGUMENT UNSPECIFIED";
  }
  if ((skip > 0 || !prefix.parent.empty()) && !findable_.contains(prefix.Key(skip))) {
    return "FAILED_PRECONDITION PARENT_UNKNOWN";
  }
  for (size_t i = 0; i < refs.size(); ++i) {
    const ModelBlock& block = blocks_[IdOf(refs[i])];
    if (!block.holders.contains(session)) return "FAILED_PRECONDITION NOT_HELD";
    if (IsStale(refs[i], block)) return "FAILED_PRECONDITION STALE_BLOCK";
    if (!block.key.empty() && block.key != prefix.Key(skip + i + 1)) {
      return "FAILED_PRECONDITION SEALED";
    }
  }
  for (uint32_t i = 0; i < refs.size(); ++i) {
    const std::string key = prefix.Key(skip + i + 1);
    const auto known = findable_.find(key);
    if (known != findable_.end()) {
      if (known->second != IdOf(refs[i])) published.duplicates[i] = known->second;
      continue;
    }
    ModelBlock& block = blocks_[IdOf(refs[i])];
    block.key = key;
    block.is_findable = true;
    block.use = ++last_use_;
    findable_[key] = IdOf(refs[i]);
    ++published.published;
  }
  return "";
}

std::vector<uint32_t> CacheModel::Match(const ModelPrefix& prefix, size_t limit) const {
  std::vector<uint32_t> found;
  if (!prefix.parent.empty() && !findable_.contains(prefix.Key(0))) return found;
  while (found.size() < std::min(limit, prefix.text.size())) {
    const auto known = findable_.find(prefix.Key(found.size() + 1));
    if (known == findable_.end()) break;
    found.push_back(known->second);
  }
  return found;
}

std::string CacheModel::Acquire(size_t session, const std::vector<uint32_t>& found) {
  uint32_t cached = 0;
  uint32_t shared = 0;
  for (const uint32_t id : found) {
    if (IsCached(blocks_[id])) {
      ++cached;
    } else if (!blocks_[id].holders.contains(session)) {
      ++shared;
    }
  }
  if (cached > 0 && cached > Room(session, shared, /*is_first=*/true)) return kFull;
  for (const uint32_t id : found) {
    ++blocks_[id].holders[session];
    blocks_[id].use = ++last_use_;
  }
  return "";
}

std::string CacheModel::EvictListed(size_t session, const std::vector<BlockRef>& refs,
                                    std::set<uint32_t>& evicted) {
  for (const BlockRef& ref : refs) {
    const ModelBlock& block = blocks_[IdOf(ref)];
    if (!block.is_findable || IsStale(ref, block)) continue;
    if (block.tenant != sessions_.at(session).tenant) return "PERMISSION_DENIED UNSPECIFIED";
    evicted.insert(IdOf(ref));
  }
  for (const uint32_t id : evicted) {
    for (const auto& [key, child] : findable_) {
      const std::string& parent = blocks_[id].key;
      if (key.substr(0, key.size() - 1) == parent && !evicted.contains(child)) {
        return "FAILED_PRECONDITION NOT_LEAF";
      }
    }
  }
  for (const uint32_t id : evicted) Unfind(id);
  return "";
}

std::vector<uint32_t> CacheModel::EvictCount(size_t session, uint32_t count) {
  const size_t tenant = sessions_.at(session).tenant;
  std::vector<uint32_t> evicted;
  while (evicted.size() < count) {
    const std::vector<uint32_t> leaves = Leaves(tenant, /*held=*/false);
    if (leaves.empty()) break;
    const std::optional<uint32_t> chosen = chooser_ ? chooser_(leaves) : leaves[0];
    if (!chosen.has_value()) break;
    Unfind(*chosen);
    evicted.push_back(*chosen);
  }
  return evicted;
}

uint32_t CacheModel::Reset(std::optional<size_t> tenant) {
  uint32_t forgotten = 0;
  for (uint32_t i = 0; i < blocks_.size(); ++i) {
    if (!blocks_[i].is_findable || (tenant.has_value() && blocks_[i].tenant != *tenant)) continue;
    Unfind(i);
    ++forgotten;
  }
  return forgotten;
}

uint32_t CacheModel::CountFree() const {
  return static_cast<uint32_t>(
      std::ranges::count_if(blocks_, [this](const ModelBlock& block) { return IsFree(block); }));
}

uint32_t CacheModel::CountCached() const {
  return static_cast<uint32_t>(
      std::ranges::count_if(blocks_, [this](const ModelBlock& block) { return IsCached(block); }));
}

std::vector<uint32_t> CacheModel::Held(size_t session) const {
  std::vector<uint32_t> held;
  for (uint32_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].holders.contains(session)) held.push_back(i);
  }
  return held;
}

bool CacheModel::HasChildren(const std::string& key) const {
  return std::ranges::any_of(findable_, [&key](const auto& entry) {
    return entry.first.substr(0, entry.first.size() - 1) == key;
  });
}

std::vector<uint32_t> CacheModel::Leaves(std::optional<size_t> tenant, bool held) const {
  std::vector<uint32_t> leaves;
  for (const auto& [key, id] : findable_) {
    const ModelBlock& block = blocks_[id];
    if (block.holders.empty() == held || HasChildren(key)) continue;
    if (tenant.has_value() && block.tenant != *tenant) continue;
    leaves.push_back(id);
  }
  std::ranges::sort(leaves, {}, [this](uint32_t id) { return blocks_[id].use; });
  return leaves;
}

void CacheModel::EvictOne(std::optional<size_t> tenant, const Given& given) {
  const std::vector<uint32_t> leaves = Leaves(tenant, /*held=*/false);
  if (leaves.empty()) {
    Unfind(Leaves(tenant, /*held=*/true).at(0));
    return;
  }
  std::optional<uint32_t> chosen = leaves[0];
  if (chooser_) {
    // What was evicted for this call is what it was given: other calls had theirs.
    std::vector<uint32_t> its;
    for (const BlockRef& ref : given) {
      if (std::ranges::find(leaves, IdOf(ref)) != leaves.end()) its.push_back(IdOf(ref));
    }
    chosen = chooser_(its);
    if (!chosen.has_value()) chosen = chooser_(leaves);
  }
  // One that the ledger did not choose shows when the two are compared.
  Unfind(chosen.value_or(leaves[0]));
}

void CacheModel::Unfind(uint32_t id) {
  ModelBlock& block = blocks_[id];
  KVPOOL_CHECK(block.is_findable);
  findable_.erase(block.key);
  block.is_findable = false;
  LetGo(id);
}

void CacheModel::LetGo(uint32_t id) {
  if (IsFree(blocks_[id])) blocks_[id].key.clear();
}

uint32_t CacheModel::Unfilled(size_t session) const {
  return Less(sessions_.at(session).guarantee, static_cast<uint32_t>(Held(session).size()));
}

uint32_t CacheModel::Room(size_t session, uint32_t shared, bool is_first) const {
  const uint32_t own = Less(Unfilled(session), shared);
  const uint32_t there = CountFree() + CountCached();
  if (!is_first) return std::min(own, there);
  uint32_t others = 0;
  for (const auto& [other, state] : sessions_) {
    if (other != session) others += Unfilled(other);
  }
  return std::min(own, there) + Less(there, others + own);
}

uint32_t CacheModel::QuotaRoom(size_t tenant) const {
  if (options_.max_blocks_per_tenant == 0) return options_.num_blocks;
  const auto held = std::ranges::count_if(blocks_, [tenant](const ModelBlock& block) {
    return !block.holders.empty() && block.tenant == tenant;
  });
  return Less(options_.max_blocks_per_tenant, static_cast<uint32_t>(held));
}

}  // namespace kvpool::test
