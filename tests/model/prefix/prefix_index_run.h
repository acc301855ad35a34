#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/ledger/prefix/prefix_index.h"
#include "tests/model/prefix/prefix_index_model.h"
#include "tests/support/random.h"

namespace kvpool::test {

struct PrefixRunOptions {
  uint32_t num_blocks = 20;
  uint32_t tenants = 3;
  uint32_t depth = 3;
  uint32_t steps_of_a_reset = 100;  // One call in so many is a reset.
};

// PrefixIndexRun makes random calls on a PrefixIndex and its model, and compares all that can be
// seen after each.
class PrefixIndexRun {
 public:
  PrefixIndexRun(const PrefixRunOptions& options, uint64_t seed);

  // Empty, or what was wrong after which step.
  std::string Run(uint32_t steps);

 private:
  using State = PrefixIndexModel::State;

  // Somebody who watches prefixes: takes a snapshot, and is told every change meanwhile.
  struct Watcher {
    SnapshotId snapshot{};
    std::optional<uint32_t> tenant{};  // None: of all.
    bool has_ended = false;
    std::set<PrefixKey> keys{};  // What it knows to be findable.
  };

  void Step();
  // Calls. Each changes the index and the model, and compares what the two say.
  void Publish();
  void FindRun();
  void RemoveFindable();
  void RemoveOld();
  void Forget();
  void Reset();
  void TakeOld();
  void OpenSnapshot();
  void ReadSnapshot();
  void CloseSnapshot();

  // Makes the node findable, as the given block unless it is findable already.
  void Insert(uint32_t node, uint32_t block);
  std::optional<uint32_t> PickBlockFor(uint32_t node);
  EntrySlot SlotOf(uint32_t block) const { return index_.EntryOf(BlockId{block}); }
  PrefixKey KeyOf(uint32_t block) const { return nodes_[model_.at(block).node].key; }
  std::optional<uint32_t> MaybeTenant();
  void TellStored(uint32_t node);
  void TellRemoved(uint32_t node);

  void Compare();
  void CompareBlock(uint32_t block);
  void CompareWatcher(const Watcher& watcher);
  // Notes the first failure.
  void Expect(bool condition, const char* what) {
    if (!condition && failure_.empty()) failure_ = what;
  }

  const PrefixRunOptions options_;
  const std::vector<Node> nodes_;
  Random random_;
  PrefixIndex index_;
  PrefixIndexModel model_;
  std::set<uint32_t> leaves_;  // Blocks, as a policy learns of them.
  std::vector<Watcher> watchers_;
  std::string failure_;
};

}  // namespace kvpool::test
