#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/ledger/ledger.h"
#include "tests/model/exhaustive/letter.h"

namespace kvpool::test {

// What a run has come across.
struct Reached {
  std::set<Reason> reasons;
  // From and to, as a block's life is told in World::Watch.
  std::set<std::string> edges;
};

struct WorldOptions {
  std::array<std::string, kSessions> tenants = {"acme", "acme"};
  uint32_t quota = 0;
  bool has_keys = false;  // Each call but kDecRefDone has one of its own, to be repeated by.
};

// A ledger of three blocks, two sessions that use it, and all that somebody can know who has seen
// every answer and event so far. Each call is checked against that; the first that is wrong is a
// fault, and nothing is to be done after it.
class World {
 public:
  // `reached` must outlive it.
  World(const WorldOptions& options, Reached& reached);

  // Makes the call. False where there is nothing to make it on: then nothing was done.
  bool Do(const Letter& letter);
  // The same of a call that was made and checked in another world.
  void Redo(const Letter& letter);
  // Of the last call.
  bool was_refused() const { return !answer_.ok(); }
  const std::string& fault() const { return fault_; }

  // All that is known, with blocks, sessions, generations, keys and times by their order alone.
  // `order` tells of two blocks that look alike which comes first.
  std::string Describe(const std::vector<uint8_t>& order) const;
  // In which order somebody new would be given blocks. Nothing can be done afterwards.
  std::vector<uint8_t> TakeAll();

 private:
  struct Slot {
    uint32_t number = 0;  // 0: never opened.
    bool is_known = false;
    bool is_live = false;
    bool is_attached = false;
    bool is_joined = false;
    bool is_process_gone = false;
    uint32_t guarantee = 0;
    SessionState state{};  // Of one that has ended.
    TimePoint touched;
    std::array<uint32_t, kBlocks> references{};
    std::array<uint64_t, kBlocks> since{};  // Since which call it holds the block.
    std::array<uint64_t, kBlocks>
        left_behind{};  // At which generation it held the block at its end.
  };
  // A call that waits, or whose blocks are being filled.
  struct PendingCall {
    PendingId id{};
    PendingId answer_to{};  // Another where a repeat has taken its place.
    uint8_t session = 0;
    uint32_t number = 0;
    uint32_t count = 0;
    std::optional<BlockRef> release;
    bool is_acquire = false;
    std::vector<BlockRef> blocks;  // Of a fill.
    std::vector<BlockId> filled;
    bool is_answered = false;
  };
  struct PinOfBlock {
    PendingId id{};
    uint8_t session = 0;
    uint32_t block = 0;
    bool is_write = false;
    bool is_granted = false;
  };
  // The last call that had a key, and what it was answered.
  struct Keyed {
    Letter letter;
    uint32_t number = 0;  // Of the session.
    uint64_t key = 0;
    BlockRef ref;
    std::vector<BlockRef> blocks;
    DecRefAnswer dropped;
    PublishAnswer published;
    PendingId pending{};
  };
  using Blocks = std::array<BlockInfo, kBlocks>;

  // world.cc
  void Make(const Letter& letter);
  bool Applies(const Letter& letter) const;
  absl::Status Call(const Letter& letter);
  absl::Status CallSession(const Letter& letter);
  absl::Status Alloc(const Letter& letter, uint64_t key, const BlockRef& ref);
  absl::Status IncRef(const Letter& letter, uint64_t key, const BlockRef& ref);
  absl::Status DecRef(const Letter& letter, uint64_t key, const BlockRef& ref);
  absl::Status Publish(const Letter& letter, uint64_t key, const BlockRef& ref);
  absl::Status Lookup(const Letter& letter, uint64_t key);
  absl::Status Evict(const Letter& letter);
  absl::Status Pin(const Letter& letter);
  absl::Status Repeat();
  void Remember(const Letter& letter, uint64_t key, const BlockRef& ref);
  BlockRef RefFor(const Letter& letter) const;
  SessionId IdOf(uint8_t session) const;
  Caller CallerOf(uint8_t session) const;

  // world_events.cc
  void TakeEvents();
  void On(const AllocDone& event);
  void On(const FillNeeded& event);
  void On(const PinDone& event);
  void On(const SessionEnded& event);
  void On(const SessionForgotten& event);
  void On(const MemberGone& event);
  void On(const WatchReady& event);
  void FillEnded(bool ok);
  void Take(uint8_t session, const std::vector<BlockRef>& blocks);
  void Drop(uint8_t session, uint32_t block);
  void Use(const AllocAnswer& answer);
  // The call that waits, or the one at hand, where that is its id; else null.
  std::optional<PendingCall>* PendingOf(PendingId id);
  Slot* FindSlot(const SessionId& id);
  bool IsSame(const PendingCall& call) const;  // Its session is that of the slot still.

  // world_describe.cc
  std::string DescribeBlock(uint32_t block) const;
  void DescribeSlot(const Slot& slot, std::string& text) const;

  // world_check.cc
  Blocks Look() const;
  void Check(const Letter& letter, const Blocks& before);
  void CheckCounts();
  void CheckHolders();
  void CheckPins();
  void CheckWaiting();
  void CheckTaken(uint32_t block);
  void CheckRefused(const Letter& letter, const Blocks& before);
  void Watch(uint32_t block, const BlockInfo& before, const BlockInfo& after);
  std::vector<BlockId> FindableOf(uint8_t session) const;  // Of xy, before the call.
  void Expect(bool holds, const std::string& what);

  const WorldOptions options_;
  Reached& reached_;
  Ledger ledger_;
  TimePoint now_{std::chrono::seconds(1'000)};
  absl::Status answer_;
  std::string fault_;
  Blocks before_;
  Blocks after_;
  std::optional<TimePoint> due_;
  std::array<Slot, kSessions> slots_;
  uint32_t last_number_ = 0;
  uint64_t calls_ = 0;
  std::optional<PendingCall> starting_;  // Made by the call at hand.
  std::optional<PendingCall> waiting_;
  std::vector<PendingCall> fills_;
  std::vector<PinOfBlock> pins_;
  std::optional<Keyed> keyed_;
  std::optional<PendingId> replaced_;         // By a repeat, whose call is at hand.
  std::array<bool, kBlocks> is_unknown_{};    // Its bytes, as a fill of it is not over or failed.
  std::array<std::string, kBlocks> text_{};   // Of its prefix, while it is sealed.
  std::array<uint64_t, kBlocks> last_use_{};  // The call that used its prefix last.
  // Of the call at hand.
  std::set<uint32_t> to_fill_;
  size_t event_count_ = 0;
  bool had_to_reclaim_ = false;
};

}  // namespace kvpool::test
