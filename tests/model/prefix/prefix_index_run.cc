#include "tests/model/prefix/prefix_index_run.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kvpool::test {

PrefixIndexRun::PrefixIndexRun(const PrefixRunOptions& options, uint64_t seed)
    : options_(options),
      nodes_(MakeNodes(options.tenants, options.depth)),
      random_(seed),
      model_(nodes_, options.num_blocks) {}

std::string PrefixIndexRun::Run(uint32_t steps) {
  for (uint32_t step = 0; step < steps; ++step) {
    Step();
    Compare();
    if (!failure_.empty()) return absl::StrCat("step ", step, ": ", failure_);
  }
  return "";
}

void PrefixIndexRun::Step() {
  if (random_.OneIn(options_.steps_of_a_reset)) return Reset();
  switch (random_.Below(16)) {
    case 0:
      return FindRun();
    case 1:
    case 2:
    case 3:
      return RemoveFindable();
    case 4:
      return RemoveOld();
    case 5:
    case 6:
    case 7:
      return Forget();
    case 8:
      return TakeOld();
    case 9:
      return OpenSnapshot();
    case 10:
    case 11:
      return ReadSnapshot();
    case 12:
      return CloseSnapshot();
    default:
      return Publish();
  }
}

// A node with its ancestors, as far as there are blocks for them.
void PrefixIndexRun::Publish() {
  std::vector<uint32_t> path;
  for (std::optional<uint32_t> node = random_.Below(static_cast<uint32_t>(nodes_.size()));
       node.has_value(); node = nodes_[*node].parent) {
    path.insert(path.begin(), *node);
  }
  for (const uint32_t node : path) {
    const std::optional<uint32_t> block = PickBlockFor(node);
    if (!block.has_value()) return;
    Insert(node, *block);
  }
}

// A block that may be published as the node: not sealed, or under this very key.
std::optional<uint32_t> PrefixIndexRun::PickBlockFor(uint32_t node) {
  std::vector<uint32_t> blocks;
  for (uint32_t i = 0; i < model_.num_blocks(); ++i) {
    if (model_.at(i).state == State::kNone || model_.at(i).node == node) blocks.push_back(i);
  }
  if (blocks.empty()) return std::nullopt;
  return blocks[random_.Below(static_cast<uint32_t>(blocks.size()))];
}

void PrefixIndexRun::Insert(uint32_t number, uint32_t block) {
  const Node& node = nodes_[number];
  const std::optional<uint32_t> known = model_.Find(number);
  const std::optional<uint32_t> parent =
      node.parent.has_value() ? model_.Find(*node.parent) : std::nullopt;
  const bool parent_was_leaf =
      !known.has_value() && parent.has_value() && model_.CountChildren(*node.parent) == 0;
  const InsertResult result =
      parent.has_value()
          ? index_.Insert(node.key, BlockId{block}, SlotOf(*parent))
          : index_.InsertFirst(
                node.key, BlockId{block},
                {.root = node.root, .tenant = TenantSlot{node.tenant}, .model_id = "model"});
  Expect(result.is_new != known.has_value(), "an insert is new where the key is not there");
  Expect(result.parent_was_leaf == parent_was_leaf, "an insert tells that the parent was a leaf");
  Expect(index_.at(result.entry).block == BlockId{known.value_or(block)},
         "an insert tells whose the key is");
  if (known.has_value()) return;
  model_.at(block) = {.state = State::kFindable, .node = number};
  leaves_.insert(block);
  if (parent_was_leaf) leaves_.erase(*parent);
  TellStored(number);
}

void PrefixIndexRun::FindRun() {
  std::vector<PrefixKey> keys;
  std::vector<EntrySlot> expected;
  bool is_found = true;
  // Any keys will do: the index knows of no order but that of the list.
  for (uint32_t i = random_.Below(5); i > 0; --i) {
    const uint32_t node = random_.Below(static_cast<uint32_t>(nodes_.size()));
    keys.push_back(nodes_[node].key);
    const std::optional<uint32_t> block = model_.Find(node);
    is_found = is_found && block.has_value();
    if (is_found) expected.push_back(SlotOf(*block));
  }
  std::vector<EntrySlot> found;
  index_.FindRun(keys, found);
  Expect(found == expected, "a run ends before the first key that is missing");
}

void PrefixIndexRun::RemoveFindable() {
  if (leaves_.empty()) return;
  auto leaf = leaves_.begin();
  std::advance(leaf, random_.Below(static_cast<uint32_t>(leaves_.size())));
  const uint32_t block = *leaf;
  leaves_.erase(leaf);
  const uint32_t node = model_.at(block).node;
  const EntrySlot new_leaf = index_.Remove(SlotOf(block));
  model_.at(block).state = State::kRemembered;
  std::optional<uint32_t> expected;
  if (const std::optional<uint32_t> parent = nodes_[node].parent; parent.has_value()) {
    if (model_.CountChildren(*parent) == 0) expected = model_.Find(*parent);
  }
  Expect(new_leaf == (expected.has_value() ? SlotOf(*expected) : kNoEntry),
         "removing a leaf tells that the parent has become one");
  if (expected.has_value()) leaves_.insert(*expected);
  TellRemoved(node);
}

void PrefixIndexRun::RemoveOld() {
  const std::vector<uint32_t> old = model_.List(State::kOld);
  if (old.empty()) return;
  const uint32_t block = old[random_.Below(static_cast<uint32_t>(old.size()))];
  Expect(index_.Remove(SlotOf(block)) == kNoEntry, "removing an old entry makes no leaf");
  model_.at(block).state = State::kRemembered;
}

void PrefixIndexRun::Forget() {
  const uint32_t block = random_.Below(model_.num_blocks());
  if (model_.at(block).state == State::kRemembered) model_.at(block).state = State::kNone;
  if (model_.at(block).state == State::kNone) index_.Forget(BlockId{block});
}

void PrefixIndexRun::Reset() {
  const std::optional<uint32_t> tenant = MaybeTenant();
  const uint32_t expected = model_.Count(State::kFindable, tenant);
  const uint32_t count = tenant.has_value() ? index_.Reset(TenantSlot{*tenant}) : index_.ResetAll();
  Expect(count == expected, "a reset tells how many it forgot");
  model_.Reset(tenant);
  std::erase_if(leaves_, [&](uint32_t block) { return model_.at(block).state == State::kOld; });
  // Each is told that all, or all of its own, is cleared.
  for (Watcher& watcher : watchers_) {
    std::erase_if(watcher.keys, [&](const PrefixKey& key) {
      const auto node = std::ranges::find(nodes_, key, &Node::key);
      return !tenant.has_value() || node->tenant == *tenant;
    });
  }
}

void PrefixIndexRun::TakeOld() {
  const std::optional<uint32_t> tenant = MaybeTenant();
  const bool has_old = model_.Count(State::kOld, tenant) > 0;
  const EntrySlot slot =
      tenant.has_value() ? index_.TakeOld(TenantSlot{*tenant}) : index_.TakeOld();
  Expect((slot != kNoEntry) == has_old, "an old entry is taken if there is one");
  if (slot == kNoEntry) return;
  PrefixIndexModel::Block& block = model_.at(ToIndex(index_.at(slot).block));
  Expect(block.state == State::kOld, "what is taken is old");
  Expect(!tenant.has_value() || nodes_[block.node].tenant == *tenant, "what is taken is its own");
  block.state = State::kRemembered;
}

void PrefixIndexRun::OpenSnapshot() {
  if (watchers_.size() >= 3) return;
  const std::optional<uint32_t> tenant = MaybeTenant();
  watchers_.push_back({.snapshot = tenant.has_value() ? index_.OpenSnapshot(TenantSlot{*tenant})
                                                      : index_.OpenSnapshotOfAll(),
                       .tenant = tenant});
}

void PrefixIndexRun::ReadSnapshot() {
  if (watchers_.empty()) return;
  Watcher& watcher = watchers_[random_.Below(static_cast<uint32_t>(watchers_.size()))];
  const uint32_t steps = random_.Below(5);
  std::vector<EntrySlot> entries;
  const bool has_more = index_.ReadSnapshot(watcher.snapshot, steps, entries);
  Expect(entries.size() <= steps, "a read of a snapshot gives no more than its steps");
  Expect(entries.empty() || !watcher.has_ended, "a snapshot that ended gives nothing");
  for (const EntrySlot slot : entries) {
    const PrefixEntry& entry = index_.at(slot);
    Expect(index_.is_findable(slot), "a snapshot gives what is findable");
    Expect(!watcher.tenant.has_value() || index_.tenant(slot) == TenantSlot{*watcher.tenant},
           "a snapshot gives a tenant its own");
    Expect(entry.parent == kNoEntry || watcher.keys.contains(index_.at(entry.parent).key),
           "a snapshot gives parents first");
    watcher.keys.insert(entry.key);
  }
  if (!has_more) watcher.has_ended = true;
}

void PrefixIndexRun::CloseSnapshot() {
  if (watchers_.empty() || !random_.OneIn(3)) return;
  const uint32_t place = random_.Below(static_cast<uint32_t>(watchers_.size()));
  index_.CloseSnapshot(watchers_[place].snapshot);
  watchers_.erase(watchers_.begin() + place);
}

std::optional<uint32_t> PrefixIndexRun::MaybeTenant() {
  const uint32_t tenant = random_.Below(options_.tenants + 1);
  if (tenant == options_.tenants) return std::nullopt;
  return tenant;
}

void PrefixIndexRun::TellStored(uint32_t node) {
  for (Watcher& watcher : watchers_) {
    const Node& stored = nodes_[node];
    if (watcher.tenant.value_or(stored.tenant) != stored.tenant) continue;
    if (index_.WillCome(watcher.snapshot, TenantSlot{stored.tenant})) continue;
    Expect(!stored.parent.has_value() || watcher.keys.contains(nodes_[*stored.parent].key),
           "what a snapshot will not come to has its parent told");
    watcher.keys.insert(stored.key);
  }
}

void PrefixIndexRun::TellRemoved(uint32_t node) {
  for (Watcher& watcher : watchers_) watcher.keys.erase(nodes_[node].key);
}

void PrefixIndexRun::Compare() {
  const absl::Status status = index_.CheckInvariants();
  if (!status.ok() && failure_.empty()) failure_ = status.ToString();
  for (uint32_t block = 0; block < model_.num_blocks(); ++block) CompareBlock(block);
  std::vector<std::optional<uint32_t>> blocks(nodes_.size());
  for (const uint32_t block : model_.List(State::kFindable)) {
    blocks[model_.at(block).node] = block;
  }
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    const EntrySlot expected = blocks[node].has_value() ? SlotOf(*blocks[node]) : kNoEntry;
    Expect(index_.Find(nodes_[node].key) == expected, "a key is found exactly while it is there");
  }
  for (uint32_t tenant = 0; tenant < options_.tenants; ++tenant) {
    Expect(index_.findable_count(TenantSlot{tenant}) == model_.Count(State::kFindable, tenant),
           "findable entries of a tenant are counted");
  }
  Expect(index_.findable_count() == model_.Count(State::kFindable, std::nullopt),
         "findable entries are counted");
  Expect(index_.old_count() == model_.Count(State::kOld, std::nullopt), "old ones are counted");
  for (const Watcher& watcher : watchers_) {
    if (watcher.has_ended) CompareWatcher(watcher);
  }
}

void PrefixIndexRun::CompareBlock(uint32_t number) {
  const PrefixIndexModel::Block& block = model_.at(number);
  const EntrySlot slot = SlotOf(number);
  Expect((slot == kNoEntry) == (block.state == State::kNone), "a block has an entry while sealed");
  if (slot == kNoEntry || block.state == State::kNone) return;
  const Node& node = nodes_[block.node];
  const PrefixEntry& entry = index_.at(slot);
  Expect(entry.key == node.key && entry.block == BlockId{number}, "an entry has key and block");
  Expect(index_.is_findable(slot) == (block.state == State::kFindable), "findable, or not");
  Expect(index_.is_old(slot) == (block.state == State::kOld), "old, or not");
  if (block.state != State::kRemembered) {
    Expect(index_.root(slot) == node.root && index_.tenant(slot) == TenantSlot{node.tenant} &&
               index_.model_id(slot) == "model",
           "an entry has its space's names");
  }
  if (block.state != State::kFindable) return;
  const uint32_t child_count = model_.CountChildren(block.node);
  Expect(entry.child_count == child_count, "children are counted");
  Expect(leaves_.contains(number) == (child_count == 0), "the caller knows the leaves");
  const std::optional<uint32_t> parent =
      node.parent.has_value() ? model_.Find(*node.parent) : std::nullopt;
  Expect(parent.has_value() == node.parent.has_value(), "a findable block's parent is findable");
  Expect(entry.parent == (parent.has_value() ? SlotOf(*parent) : kNoEntry), "a parent is known");
}

// After its end, a snapshot with the changes since it began is the index.
void PrefixIndexRun::CompareWatcher(const Watcher& watcher) {
  std::set<PrefixKey> keys;
  for (const uint32_t block : model_.List(State::kFindable)) {
    const Node& node = nodes_[model_.at(block).node];
    if (watcher.tenant.value_or(node.tenant) == node.tenant) keys.insert(node.key);
  }
  Expect(watcher.keys == keys, "a snapshot and the changes give the index");
}

}  // namespace kvpool::test
