#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "core/ids.h"

namespace kvpool {

// PinTable has the pins on each block take turns: first come first served, reads together, and
// all blocks of a pin at once or none of them, so that a pin that waits keeps nobody out but
// those who came after it, and no two wait for each other.
//
// A pin is clear once it is clear on each of its blocks: granted it may be then, by Grant, or
// taken out. Every operation takes time linear in its own pin's blocks and in what it clears.
class PinTable {
 public:
  struct Removed {
    std::vector<BlockId> unpinned;  // No granted pin is left on them.
    std::vector<PendingId> clear;   // Pins that are clear from now on, in order of arrival.
  };

  PinTable() = default;
  PinTable(const PinTable&) = delete;
  PinTable& operator=(const PinTable&) = delete;

  // Queues a pin; each block is in one of the lists, once. Returns whether it is clear.
  bool Add(PendingId id, std::span<const BlockId> reads, std::span<const BlockId> writes);
  // Queues a pin before all others and grants it. Requires that no block has a granted pin.
  void AddFirst(PendingId id, std::span<const BlockId> writes);

  // Grants a clear pin. Returns the blocks that had no granted pin before.
  std::vector<BlockId> Grant(PendingId id);
  // Takes a pin out, granted or not.
  Removed Remove(PendingId id);

  bool is_granted(PendingId id) const;
  bool has(PendingId id) const { return pins_.contains(id); }
  // Whether a granted pin is on the block.
  bool is_pinned(BlockId block) const;
  // And whether it is one that writes.
  bool is_written(BlockId block) const;

 private:
  using NodeIndex = uint32_t;
  static constexpr NodeIndex kNone = UINT32_MAX;

  // A pin's place in a block's queue.
  struct Node {
    PendingId pin{};
    BlockId block{};
    bool is_write = false;
    bool is_clear = false;
    NodeIndex previous = kNone;
    NodeIndex next = kNone;
  };
  // Clear nodes come first: reads, or one write.
  struct Queue {
    NodeIndex head = kNone;
    NodeIndex tail = kNone;
    NodeIndex first_waiting = kNone;
    uint32_t clear_count = 0;
    uint32_t granted_count = 0;
    bool is_written = false;  // What is clear is a write.
  };
  struct Pin {
    std::vector<NodeIndex> nodes;
    uint32_t waiting_count = 0;  // Nodes that are not clear.
    bool is_granted = false;
  };

  NodeIndex MakeNode(PendingId id, BlockId block, bool is_write);
  void Append(NodeIndex index);
  void Unlink(Queue& queue, NodeIndex index);
  // Clears what may be; appends the pins that are clear by that.
  void Advance(Queue& queue, std::vector<PendingId>& clear);
  bool MayClear(const Queue& queue, const Node& node) const;

  std::vector<Node> nodes_;
  std::vector<NodeIndex> unused_;
  absl::flat_hash_map<BlockId, Queue> queues_;
  absl::flat_hash_map<PendingId, Pin> pins_;
};

}  // namespace kvpool
