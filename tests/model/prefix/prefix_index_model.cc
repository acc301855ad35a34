#include "tests/model/prefix/prefix_index_model.h"

#include <array>
#include <string>

#include "core/ledger/prefix/prefix_hasher.h"

namespace kvpool::test {
namespace {

void AddChildren(const PrefixHasher& hasher, const Prefix& space, uint32_t tenant,
                 std::optional<uint32_t> parent, uint32_t depth, std::vector<Node>& nodes) {
  if (depth == 0) return;
  for (uint32_t token = 0; token < 2; ++token) {
    const std::array<uint32_t, 1> tokens = {token};
    Prefix prefix = space;
    prefix.tokens = tokens;
    // A copy: `nodes` grows.
    const PrefixKey parent_key = parent.has_value() ? nodes[*parent].key : PrefixKey();
    if (parent.has_value()) prefix.parent_key = parent_key.view();
    const PrefixKeys keys = hasher.Hash(prefix, /*block_size=*/1);
    nodes.push_back({.tenant = tenant, .root = keys.root, .key = keys.blocks[0], .parent = parent});
    const auto node = static_cast<uint32_t>(nodes.size() - 1);
    AddChildren(hasher, space, tenant, node, depth - 1, nodes);
  }
}

}  // namespace

std::vector<Node> MakeNodes(uint32_t tenants, uint32_t depth) {
  const PrefixHasher hasher;
  std::vector<Node> nodes;
  for (uint32_t tenant = 0; tenant < tenants; ++tenant) {
    const std::string name = std::to_string(tenant);
    for (const char* adapter : {"", "adapter"}) {
      const Prefix space = {.space = {.tenant = name, .model_id = "model", .adapter = adapter}};
      AddChildren(hasher, space, tenant, std::nullopt, depth, nodes);
    }
  }
  return nodes;
}

std::optional<uint32_t> PrefixIndexModel::Find(uint32_t node) const {
  for (uint32_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].state == State::kFindable && blocks_[i].node == node) return i;
  }
  return std::nullopt;
}

uint32_t PrefixIndexModel::CountChildren(uint32_t node) const {
  uint32_t count = 0;
  for (const Block& block : blocks_) {
    if (block.state == State::kFindable && nodes_[block.node].parent == node) ++count;
  }
  return count;
}

uint32_t PrefixIndexModel::Count(State state, std::optional<uint32_t> tenant) const {
  uint32_t count = 0;
  for (const Block& block : blocks_) {
    if (block.state == state && IsOf(block, tenant)) ++count;
  }
  return count;
}

std::vector<uint32_t> PrefixIndexModel::List(State state) const {
  std::vector<uint32_t> list;
  for (uint32_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].state == state) list.push_back(i);
  }
  return list;
}

void PrefixIndexModel::Reset(std::optional<uint32_t> tenant) {
  for (Block& block : blocks_) {
    if (block.state == State::kFindable && IsOf(block, tenant)) block.state = State::kOld;
  }
}

}  // namespace kvpool::test
