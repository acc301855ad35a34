#include <algorithm>

#include "absl/strings/str_cat.h"

#include "tests/model/exhaustive/world.h"
#include "tests/model/ledger/call_text.h"

// What has to hold after each call, whatever it was.

namespace kvpool::test {
namespace {

constexpr std::array kStateNames = {"FREE", "HELD", "CACHED", "QUARANTINED"};

const char* NameOf(BlockState state) { return kStateNames[static_cast<size_t>(state)]; }

}  // namespace

World::Blocks World::Look() const {
  Blocks blocks;
  for (uint32_t i = 0; i < kBlocks; ++i) blocks[i] = ledger_.GetBlock(BlockId{i});
  return blocks;
}

void World::Check(const Letter& letter, const Blocks& before) {
  const absl::Status invariants = ledger_.CheckInvariants();
  Expect(invariants.ok(), invariants.ToString());
  CheckCounts();
  CheckHolders();
  CheckPins();
  CheckWaiting();
  for (uint32_t i = 0; i < kBlocks; ++i) {
    Watch(i, before[i], after_[i]);
    if (before[i].generation != after_[i].generation) CheckTaken(i);
  }
  if (answer_.ok()) return;
  const Reason reason = GetErrorDetail(answer_).reason;
  if (reason != Reason::kUnspecified) reached_.reasons.insert(reason);
  CheckRefused(letter, before);
}

void World::CheckCounts() {
  const LedgerCounts counts = ledger_.counts();
  Expect(
      counts.free_blocks + counts.cached_blocks + counts.held_blocks + counts.quarantined_blocks ==
          kBlocks,
      "free + cached + held + quarantined is not what there is");
  std::array<uint32_t, kStateNames.size()> by_state{};
  for (const BlockInfo& block : after_) ++by_state[static_cast<size_t>(block.state)];
  Expect(by_state == std::array{counts.free_blocks, counts.held_blocks, counts.cached_blocks,
                                counts.quarantined_blocks},
         "the counts are not those of the blocks");
  Expect(counts.waiting_calls == (waiting_.has_value() ? 1U : 0U),
         "a call waits that is answered, or does not that is not");
  if (options_.quota == 0) return;
  for (const std::string& tenant : options_.tenants) {
    const auto used = std::ranges::count_if(after_, [&](const BlockInfo& block) {
      return block.tenant == tenant && block.state != BlockState::kFree;
    });
    Expect(used <= options_.quota, "a tenant has more than its quota");
  }
}

// Who holds what is what the answers said, and all of one tenant.
void World::CheckHolders() {
  for (uint32_t i = 0; i < kBlocks; ++i) {
    std::array<uint32_t, kSessions> references{};
    for (const BlockHolder& holder : after_[i].holders) {
      const Slot* slot = FindSlot(holder.session);
      Expect(slot != nullptr, "somebody unknown holds a block");
      if (slot == nullptr) return;
      const auto session = static_cast<size_t>(slot - slots_.data());
      if (slot->is_live) references[session] = holder.references;
      Expect(after_[i].tenant == options_.tenants[session], "a block is held by another tenant");
    }
    for (uint8_t session = 0; session < kSessions; ++session) {
      const uint32_t known = slots_[session].references[i];
      Expect(references[session] == known,
             absl::StrCat(session == 0 ? "A" : "B", " has ", references[session],
                          " references to block ", i, ", not ", known));
    }
  }
}

void World::CheckPins() {
  for (const PinOfBlock& pin : pins_) {
    const BlockInfo& block = after_[pin.block];
    const auto is_in_the_way = [&](const PinOfBlock& other) {
      return other.id != pin.id && other.block == pin.block && (other.is_write || pin.is_write);
    };
    const bool is_filled = std::ranges::any_of(fills_, [&](const PendingCall& fill) {
      return std::ranges::count(fill.filled, BlockId{pin.block}) > 0;
    });
    if (!pin.is_granted) {
      Expect(is_filled || std::ranges::any_of(pins_, is_in_the_way), "a pin waits for nobody");
      continue;
    }
    Expect(block.state == BlockState::kHeld || block.state == BlockState::kQuarantined,
           "a pinned block may be given away");
    Expect(!pin.is_write || !block.sealed, "a block that is written to is sealed");
    for (const PinOfBlock& other : pins_) {
      if (other.is_granted) Expect(!is_in_the_way(other), "a block is written to by two");
    }
    Expect(!is_filled, "a block is read or written while it is filled");
  }
  for (const PendingCall& fill : fills_) {
    for (const BlockId filled : fill.filled) {
      const BlockState state = after_[ToIndex(filled)].state;
      Expect(state == BlockState::kHeld || state == BlockState::kQuarantined,
             "a block that is filled may be given away");
    }
  }
}

// A call does not wait for what is there, where nobody is guaranteed anything.
void World::CheckWaiting() {
  if (!waiting_.has_value() || waiting_->release.has_value() || waiting_->is_acquire) return;
  if (slots_[0].guarantee + slots_[1].guarantee > 0) return;
  const LedgerCounts counts = ledger_.counts();
  Expect(counts.free_blocks + counts.cached_blocks < waiting_->count,
         "a call waits for what is there");
}

// A block was given away.
void World::CheckTaken(uint32_t block) {
  const BlockInfo& before = before_[block];
  Expect(after_[block].generation > before.generation, "a generation fell");
  for (const PinOfBlock& pin : pins_) {
    const bool is_on_it = pin.block == block && pin.is_granted;
    Expect(!is_on_it, "a pinned block was given away");
  }
  for (const Slot& slot : slots_) {
    if (slot.left_behind[block] == 0 || slot.is_live || !slot.is_known) continue;
    if (slot.left_behind[block] != static_cast<uint64_t>(before.generation)) continue;
    const bool claims = slot.state == SessionState::kClaiming && !before.sealed && before.claimed;
    Expect(!claims, "a claimed block was given away");
  }
  const bool is_new = before.generation == Generation{};
  const bool is_foreign = before.tenant != after_[block].tenant || is_unknown_[block];
  Expect(is_new || !is_foreign || to_fill_.contains(block),
         "what one tenant wrote is readable by another");
}

void World::CheckRefused(const Letter& letter, const Blocks& before) {
  // It may have reclaimed what an ended session held, which others may have waited for.
  if (had_to_reclaim_) return;
  Expect(event_count_ == 0, "a refused call led to something");
  for (uint32_t i = 0; i < kBlocks; ++i) {
    Expect(before[i].state == after_[i].state && before[i].generation == after_[i].generation &&
               before[i].ref_count == after_[i].ref_count &&
               before[i].published == after_[i].published,
           absl::StrCat("a refused call changed block ", i));
  }
  const bool has_guarantee = slots_[0].guarantee + slots_[1].guarantee > 0;
  if (letter.op != Op::kAlloc || has_guarantee || waiting_.has_value()) return;
  const LedgerCounts counts = ledger_.counts();
  if (GetErrorDetail(answer_).reason != Reason::kPoolFull) return;
  Expect(counts.free_blocks + counts.cached_blocks < letter.number, "no room where there is some");
}

// One call may take a block along several arrows; those that it can take alone are told apart.
void World::Watch(uint32_t block, const BlockInfo& before, const BlockInfo& after) {
  const auto reach = [this](const std::string& edge) { reached_.edges.insert(edge); };
  if (after.sealed && !before.sealed) reach("sealed");
  if (after.claimed && !before.claimed) reach("claimed");
  Expect(!after.published || after.sealed, "a findable block is not sealed");
  if (after.state == BlockState::kFree) {
    Expect(after.ref_count == 0 && !after.claimed && !after.sealed && !after.published,
           "a free block is somebody's");
  }
  const bool is_pinned = std::ranges::any_of(
      pins_, [&](const auto& pin) { return pin.block == block && pin.is_granted; });
  if (is_pinned) reach("pinned");
  if (before.generation != after.generation) {
    Expect(after.state != BlockState::kFree || before.state != BlockState::kFree,
           "a block was taken and is free");
    const bool was_free = before.state == BlockState::kFree;
    reach(was_free ? "FREE -> HELD" : absl::StrCat(NameOf(before.state), " -> FREE -> HELD"));
    return;
  }
  Expect(!before.sealed || after.sealed || after.state == BlockState::kFree,
         "a seal was broken before its block was free");
  Expect(before.tenant == after.tenant, "a block changed its tenant and not its generation");
  if (before.state == after.state) return;
  const std::string edge = absl::StrCat(NameOf(before.state), " -> ", NameOf(after.state));
  Expect(before.state != BlockState::kFree, "a block left FREE without a new generation");
  Expect(after.state != BlockState::kQuarantined || before.state == BlockState::kHeld,
         absl::StrCat("no block may go ", edge));
  reach(edge);
  if (after.state == BlockState::kQuarantined) {
    reach(absl::StrCat(edge, is_pinned ? ", pinned" : after.claimed ? ", claimed" : ", filled"));
  }
}

std::vector<BlockId> World::FindableOf(uint8_t session) const {
  std::vector<BlockId> found;
  for (const char* text : {"x", "xy"}) {
    const auto block = std::ranges::find_if(before_, [&](const BlockInfo& each) {
      return each.published && each.tenant == options_.tenants[session] &&
             text_[ToIndex(each.block)] == text;
    });
    if (block == before_.end()) break;
    found.push_back(block->block);
  }
  return found;
}

void World::Expect(bool holds, const std::string& what) {
  if (!holds && fault_.empty()) fault_ = what;
}

}  // namespace kvpool::test
