#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "core/pool.h"
#include "kvpool/v1/block.pb.h"
#include "tests/simulation/scheduler.h"

namespace kvpool::simulation {

// What a block's memory holds: the prefix that its writer wrote the KV of, and which write it was.
// 0: zeros, as a fill leaves them.
struct Stamp {
  uint32_t prefix = 0;
  uint32_t write = 0;

  bool operator==(const Stamp&) const = default;
  std::string ToString() const;
};

// A call by its session and its key: however often it arrives, it is one.
struct CallName {
  SessionId session;
  uint64_t key = 0;

  auto operator<=>(const CallName&) const = default;
};

// Judges one daemon's answers, and what lands in its memory, by what must be true of any: what is
// wrong is told to the scheduler. It looks at the pool as an operator does.
class Oracle {
 public:
  // Both outlive it.
  Oracle(Scheduler& scheduler, Pool& pool);

  // --- The daemon's answers, as it gives them ---
  // Those of `blocks` from `first_new` on are the call's own new ones, zeroed where it says so.
  void OnGranted(const CallName& call, const v1::Blocks& blocks, uint32_t first_new, v1::Fill fill);
  // The answer says that the session has references on `blocks`.
  void OnTaken(const SessionId& session, const v1::Blocks& blocks);
  // The session has taken references; where the call is repeated, it may have let them go since.
  void OnAdded(const CallName& call, const v1::Blocks& blocks);
  void OnPublished(const v1::PublishRequest& request, const v1::PublishResponse& response);

  // --- What a worker gets ---
  // The new blocks of a call that began at `begin` and whose answer is there now.
  void CheckBirths(const CallName& call, const std::vector<BlockRef>& blocks, TimePoint begin);
  // A block that the session has found by a prefix.
  void CheckFound(const SessionId& session, const BlockRef& block, uint32_t prefix);
  // A block that the worker wrote, and has not published.
  void CheckOwn(const SessionId& session, const BlockRef& block, Stamp last);
  // All that the worker knows that its session holds, a block as often as it holds it.
  void CheckReferences(const SessionId& session, std::vector<BlockRef> held);

  // --- Memory ---
  // A write of who had `block` when it began to write. Checks whose it is now, and lets it land.
  void Land(const BlockRef& block, Stamp stamp);

  bool IsLive(const SessionId& session) const;
  bool Holds(const SessionId& session, const BlockRef& block) const;
  const std::string& failure() const { return scheduler_.failure(); }
  void Fail(const std::string& what) { scheduler_.Fail(what); }

 private:
  struct Birth {
    CallName call;
    TimePoint time;
  };

  Stamp Read(BlockId block) const;
  void Write(BlockId block, Stamp stamp);
  std::string Text(const BlockRef& block) const;

  Scheduler& scheduler_;
  Pool& pool_;
  std::vector<uint64_t> last_generations_;  // By block.
  std::set<CallName> added_;
  std::map<std::pair<uint32_t, uint64_t>, Birth> births_;     // By block and generation.
  std::map<std::pair<uint32_t, uint64_t>, Stamp> published_;  // What it held then.
};

}  // namespace kvpool::simulation
