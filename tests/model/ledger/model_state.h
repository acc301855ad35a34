#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/ledger/cache_calls.h"
#include "core/ledger/calls.h"
#include "core/ledger/events.h"
#include "core/ledger/ledger.h"
#include "tests/model/ledger/verdict.h"

namespace kvpool::test {

// What there is in a pool, as plain values, and what follows from it, found by scanning. A copy
// answers "what if".
struct ModelState {
  struct Block {
    Generation generation{};
    std::string tenant;
    bool is_free = true;
    bool is_doubtful = false;  // A fill failed: whose bytes it holds is not known.
    std::map<SessionId, uint32_t> refs;
    std::optional<PrefixKey> sealed;  // The key under which it was published.
    bool is_old = false;   // Held since before a reset: the cache's reference may go later.
    bool is_left = false;  // By a reset: not findable, and the cache's all the same.
    bool is_done = false;  // Nobody is expected to use it again.
    uint64_t use = 0;      // Its last use's number; it rises from use to use.
    // The newest last; without kQuarantine and kFree.
    std::deque<std::pair<TraceOperation, uint32_t>> trace;
  };
  // A findable block and what goes before it: nothing at the start of a sequence.
  struct Entry {
    uint32_t block = 0;
    PrefixKey root;
    std::optional<PrefixKey> parent;
  };
  // The status: IncRef's OK.
  using Answer = std::variant<absl::Status, AllocAnswer, DecRefAnswer, PublishAnswer, LookupAnswer>;
  struct Remembered {
    uint64_t key = 0;
    std::string request;
    Answer answer;
  };
  struct Session {
    std::string tenant, client_name, model_id;
    int64_t pid = 0;
    uint32_t uid = 0;
    TimePoint open_time, last_call;
    Duration ttl{};
    std::set<ProcessId> processes;           // Also those that are gone.
    TimePoint last_gone = TimePoint::min();  // When the last that is gone went.
    std::optional<ProcessId> stream = {};
    std::optional<SessionId> joined = {};
    uint32_t guarantee = 0;
    uint32_t long_calls = 0;  // Between BeginCall and EndCall.
    std::deque<Remembered> answers = {};
    bool is_live = true;
    bool is_vouched = false;         // Closed, or its claims were released.
    bool is_dropping = false;        // Its end has been seen to,
    bool is_over = false;            // and that of its claims.
    std::set<uint32_t> claims = {};  // In the name of `processes`.
  };
  struct Waiter {
    PendingId id{};
    AllocCall call;  // Its tenant, prefix and release list are empty; they are here:
    std::string tenant;
    std::shared_ptr<const PrefixKeys> prefix;
    std::vector<BlockRef> release;
    std::string request;
    TimePoint deadline;

    AllocCall Call() const;
  };
  struct Fill {
    PendingId id{};
    PendingId answer{};  // Who is answered; none where the session ended.
    SessionId session;
    uint64_t key = 0;
    std::string request;
    std::vector<BlockRef> blocks;
    uint32_t matched_blocks = 0;  // The first of `blocks`.
    std::optional<PrefixKey> last_key;
    std::set<uint32_t> filled;
  };
  struct Pin {
    PendingId id{};
    SessionId reader, writer;
    std::vector<BlockRef> reads = {}, writes = {};
    bool is_granted = false;
  };

  explicit ModelState(const LedgerOptions& ledger_options);

  bool IsLive(const SessionId& session) const;
  // The processes in whose name the session claims: its own, and those of sessions that joined it.
  std::set<ProcessId> Claimants(const SessionId& id) const;
  // When the last of them has been gone for the grace; absent: not known yet.
  std::optional<TimePoint> ClaimsEnd(const SessionId& id) const;
  // Whether an end of the session leaves, or left, nobody to claim.
  bool IsOver(const SessionId& id) const;
  bool IsClaimed(uint32_t block) const;
  bool IsPinned(uint32_t block) const;
  // Whether `pin` must wait: for one that came before it, or, where a block was given out anew
  // while it waited, for that block's fill.
  bool MustWait(const Pin& pin) const;
  BlockState StateOf(uint32_t block) const;
  uint32_t RefCount(uint32_t block) const;    // The cache's included.
  uint32_t SharedRefs(uint32_t block) const;  // By sessions.
  uint32_t RefCount(uint32_t block, const SessionId& session) const;
  uint32_t CountBlocks(BlockState state) const;
  uint32_t CountRoom() const;  // Free and cached ones.
  uint32_t HeldBlocks(const SessionId& session) const;
  uint64_t References(const SessionId& session) const;

  uint32_t Unfilled(const SessionId& session) const;
  uint32_t QuotaLeft(const std::string& tenant) const;
  // The sum of all that sessions lack of their guarantees.
  uint32_t Promised() const;
  // What an Alloc of the session's would get at most; `is_first`: nobody waits before it.
  uint32_t Available(const SessionId& session, bool is_first) const;
  uint32_t Available(const SessionId& session) const;
  // The same without the quota. `shared`: so many blocks it takes first that are not to be had.
  uint32_t Unreserved(const SessionId& session, bool is_first, uint32_t shared = 0) const;

  // model_trie.cc
  bool IsFindable(uint32_t block) const;
  // Whether what the prefix goes on after is findable in its space.
  bool IsParentKnown(const PrefixKeys& prefix) const;
  // The blocks of the longest findable prefix, at most `limit`.
  std::vector<uint32_t> Match(const PrefixKeys& prefix, size_t limit) const;
  bool HasChildren(uint32_t block, const std::set<uint32_t>& except = {}) const;
  // Findable blocks without children, cached or not, of a tenant or of all: that used longest ago
  // first.
  std::vector<uint32_t> Leaves(const std::optional<std::string>& tenant, bool is_cached) const;
  // Blocks that a reset left.
  std::vector<uint32_t> Left(const std::optional<std::string>& tenant) const;

  // When an unattached session expires, as things stand.
  std::optional<TimePoint> Expiry(const SessionId& id) const;
  std::optional<TimePoint> NextDeadline() const;
  LedgerCounts Counts() const;
  bool IsIdle() const;

  LedgerOptions options;
  TimePoint now;
  std::vector<Block> blocks;
  // Free blocks, the next one last. Inside a group the order of freeing is the ledger's secret.
  std::vector<std::set<uint32_t>> free_groups;
  std::map<PrefixKey, Entry> findable;
  uint64_t last_use = 0;
  std::map<SessionId, Session> sessions;  // Until they are forgotten.
  std::set<ProcessId> gone;
  std::vector<Waiter> waiters[2];  // By WaitQueue.
  std::vector<Fill> fills;
  std::vector<Pin> pins;  // As they came; fills are pins too.
};

}  // namespace kvpool::test
