#include <algorithm>

#include "tests/model/ledger/model_state.h"

// What ModelState knows of prefixes: a map of findable keys, looked through for everything.

namespace kvpool::test {

bool ModelState::IsFindable(uint32_t block) const {
  if (!blocks[block].sealed.has_value()) return false;
  const auto entry = findable.find(*blocks[block].sealed);
  return entry != findable.end() && entry->second.block == block;
}

bool ModelState::IsParentKnown(const PrefixKeys& prefix) const {
  if (!prefix.parent.has_value()) return true;
  const auto entry = findable.find(*prefix.parent);
  return entry != findable.end() && entry->second.root == prefix.root;
}

std::vector<uint32_t> ModelState::Match(const PrefixKeys& prefix, size_t limit) const {
  std::vector<uint32_t> found;
  if (!IsParentKnown(prefix)) return found;
  while (found.size() < std::min(limit, prefix.blocks.size())) {
    const auto entry = findable.find(prefix.blocks[found.size()]);
    if (entry == findable.end()) break;
    found.push_back(entry->second.block);
  }
  return found;
}

bool ModelState::HasChildren(uint32_t block, const std::set<uint32_t>& except) const {
  return std::ranges::any_of(findable, [&](const auto& entry) {
    return entry.second.parent == blocks[block].sealed && !except.contains(entry.second.block);
  });
}

std::vector<uint32_t> ModelState::Leaves(const std::optional<std::string>& tenant,
                                         bool is_cached) const {
  std::vector<uint32_t> leaves;
  for (const auto& [key, entry] : findable) {
    const Block& block = blocks[entry.block];
    if (tenant.has_value() && block.tenant != *tenant) continue;
    if ((StateOf(entry.block) == BlockState::kCached) != is_cached) continue;
    if (!HasChildren(entry.block)) leaves.push_back(entry.block);
  }
  std::ranges::sort(leaves, {}, [this](uint32_t block) { return blocks[block].use; });
  return leaves;
}

std::vector<uint32_t> ModelState::Left(const std::optional<std::string>& tenant) const {
  std::vector<uint32_t> left;
  for (uint32_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].is_left && (!tenant.has_value() || blocks[i].tenant == *tenant)) {
      left.push_back(i);
    }
  }
  return left;
}

}  // namespace kvpool::test
