#include "core/ledger/pin_table.h"

#include <algorithm>

#include "core/check.h"

namespace kvpool {

bool PinTable::Add(PendingId id, std::span<const BlockId> reads, std::span<const BlockId> writes) {
  const bool is_new = pins_.emplace(id, Pin{}).second;
  KVPOOL_CHECK(is_new);
  for (const BlockId block : reads) Append(MakeNode(id, block, /*is_write=*/false));
  for (const BlockId block : writes) Append(MakeNode(id, block, /*is_write=*/true));
  return pins_.at(id).waiting_count == 0;
}

void PinTable::AddFirst(PendingId id, std::span<const BlockId> writes) {
  Pin& pin = pins_[id];
  pin.is_granted = true;
  for (const BlockId block : writes) {
    const NodeIndex index = MakeNode(id, block, /*is_write=*/true);
    pin.nodes.push_back(index);
    Queue& queue = queues_[block];
    KVPOOL_CHECK(queue.granted_count == 0);
    // Those that waited for other blocks alone wait for this one again.
    for (NodeIndex i = queue.head; i != queue.first_waiting; i = nodes_[i].next) {
      nodes_[i].is_clear = false;
      ++pins_.at(nodes_[i].pin).waiting_count;
    }
    nodes_[index].next = queue.head;
    (queue.head == kNone ? queue.tail : nodes_[queue.head].previous) = index;
    queue.first_waiting = queue.head;
    queue.head = index;
    nodes_[index].is_clear = true;
    queue.clear_count = 1;
    queue.granted_count = 1;
    queue.is_written = true;
  }
}

std::vector<BlockId> PinTable::Grant(PendingId id) {
  Pin& pin = pins_.at(id);
  KVPOOL_CHECK(pin.waiting_count == 0 && !pin.is_granted);
  pin.is_granted = true;
  std::vector<BlockId> pinned;
  for (const NodeIndex index : pin.nodes) {
    if (queues_.at(nodes_[index].block).granted_count++ == 0) {
      pinned.push_back(nodes_[index].block);
    }
  }
  return pinned;
}

PinTable::Removed PinTable::Remove(PendingId id) {
  const auto found = pins_.find(id);
  KVPOOL_CHECK(found != pins_.end());
  const Pin pin = std::move(found->second);
  pins_.erase(found);
  Removed removed;
  for (const NodeIndex index : pin.nodes) {
    const BlockId block = nodes_[index].block;
    const auto queue = queues_.find(block);
    Unlink(queue->second, index);
    if (pin.is_granted && --queue->second.granted_count == 0) removed.unpinned.push_back(block);
    Advance(queue->second, removed.clear);
    if (queue->second.head == kNone) queues_.erase(queue);
    unused_.push_back(index);
  }
  std::ranges::sort(removed.clear);
  return removed;
}

bool PinTable::is_granted(PendingId id) const {
  const auto pin = pins_.find(id);
  return pin != pins_.end() && pin->second.is_granted;
}

bool PinTable::is_pinned(BlockId block) const {
  const auto queue = queues_.find(block);
  return queue != queues_.end() && queue->second.granted_count > 0;
}

bool PinTable::is_written(BlockId block) const {
  const auto found = queues_.find(block);
  return found != queues_.end() && found->second.granted_count > 0 && found->second.is_written;
}

PinTable::NodeIndex PinTable::MakeNode(PendingId id, BlockId block, bool is_write) {
  NodeIndex index = kNone;
  if (unused_.empty()) {
    index = static_cast<NodeIndex>(nodes_.size());
    nodes_.emplace_back();
  } else {
    index = unused_.back();
    unused_.pop_back();
  }
  nodes_[index] = {.pin = id, .block = block, .is_write = is_write};
  return index;
}

void PinTable::Append(NodeIndex index) {
  Node& node = nodes_[index];
  Pin& pin = pins_.at(node.pin);
  pin.nodes.push_back(index);
  Queue& queue = queues_[node.block];
  node.previous = queue.tail;
  (queue.tail == kNone ? queue.head : nodes_[queue.tail].next) = index;
  queue.tail = index;
  if (queue.first_waiting == kNone && MayClear(queue, node)) {
    node.is_clear = true;
    ++queue.clear_count;
    queue.is_written = node.is_write;
    return;
  }
  if (queue.first_waiting == kNone) queue.first_waiting = index;
  ++pin.waiting_count;
}

void PinTable::Unlink(Queue& queue, NodeIndex index) {
  const Node& node = nodes_[index];
  (node.previous == kNone ? queue.head : nodes_[node.previous].next) = node.next;
  (node.next == kNone ? queue.tail : nodes_[node.next].previous) = node.previous;
  if (node.is_clear) --queue.clear_count;
  if (queue.first_waiting == index) queue.first_waiting = node.next;
}

void PinTable::Advance(Queue& queue, std::vector<PendingId>& clear) {
  while (queue.first_waiting != kNone && MayClear(queue, nodes_[queue.first_waiting])) {
    Node& node = nodes_[queue.first_waiting];
    node.is_clear = true;
    ++queue.clear_count;
    queue.is_written = node.is_write;
    queue.first_waiting = node.next;
    if (--pins_.at(node.pin).waiting_count == 0) clear.push_back(node.pin);
  }
}

bool PinTable::MayClear(const Queue& queue, const Node& node) const {
  return queue.clear_count == 0 || (!queue.is_written && !node.is_write);
}

}  // namespace kvpool
