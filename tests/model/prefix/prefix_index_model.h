#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ids.h"
#include "core/ledger/prefix/prefix_key.h"
#include "core/ledger/slots.h"

namespace kvpool::test {

// A prefix that a run knows of: all there may ever be are made at its start.
struct Node {
  uint32_t tenant = 0;
  PrefixKey root;
  PrefixKey key;
  std::optional<uint32_t> parent;  // None at the start of a sequence.
};

// All prefixes of up to `depth` blocks, of two possible contents each, in two spaces of each of the
// tenants. Parents come before their children.
std::vector<Node> MakeNodes(uint32_t tenants, uint32_t depth);

// The simplest model of PrefixIndex: what each block is published as. Everything else is counted
// when it is asked for, by going through the blocks.
class PrefixIndexModel {
 public:
  enum class State : uint8_t { kNone, kFindable, kOld, kRemembered };
  struct Block {
    State state = State::kNone;
    uint32_t node = 0;  // Unless the state is kNone.
  };

  PrefixIndexModel(const std::vector<Node>& nodes, uint32_t num_blocks)
      : nodes_(nodes), blocks_(num_blocks) {}

  // The block that is findable as the node.
  std::optional<uint32_t> Find(uint32_t node) const;
  uint32_t CountChildren(uint32_t node) const;
  // Of one tenant, or of all.
  uint32_t Count(State state, std::optional<uint32_t> tenant) const;
  // Those in that state.
  std::vector<uint32_t> List(State state) const;
  // Makes what is findable, of one tenant or all, old.
  void Reset(std::optional<uint32_t> tenant);

  Block& at(uint32_t block) { return blocks_[block]; }
  const Block& at(uint32_t block) const { return blocks_[block]; }
  uint32_t num_blocks() const { return static_cast<uint32_t>(blocks_.size()); }

 private:
  bool IsOf(const Block& block, std::optional<uint32_t> tenant) const {
    return !tenant.has_value() || nodes_[block.node].tenant == *tenant;
  }

  const std::vector<Node>& nodes_;
  std::vector<Block> blocks_;
};

}  // namespace kvpool::test
