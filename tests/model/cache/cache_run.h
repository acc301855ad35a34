#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "tests/model/cache/cache_model.h"
#include "tests/model/cache/watchers.h"
#include "tests/support/random.h"

namespace kvpool::test {

struct CacheRunOptions {
  LedgerOptions ledger;
  size_t sessions = 4;
  size_t tenants = 2;
  uint32_t max_guarantee = 0;  // Over 0: no call waits.
  size_t letters = 3;          // Of the texts that prefixes are.
  size_t max_text = 5;
};

// A ledger and its model, driven by random calls.
class CacheRun {
 public:
  CacheRun(const CacheRunOptions& options, Random& random);

  // One call. Returns what was wrong, or nothing.
  std::string Step();
  // The call that was made last, for people.
  const std::string& call() const { return call_; }

 private:
  // How a pending call ended, in the order in which calls were served.
  struct Served {
    PendingId id{};
    absl::StatusOr<AllocAnswer> result;
  };

  void DoOpen(size_t session);
  void DoClose(size_t session);
  void DoAlloc(size_t session);
  void DoCancel();
  void DoIncRef(size_t session);
  void DoDecRef(size_t session);
  void DoPublish(size_t session);
  void DoLookup(size_t session);
  void DoEvict(size_t session);
  void DoReset();

  // Takes the ledger's events, ends the fills that they ask for.
  void Collect();
  // Serves the model's waiting calls as the ledger served its own.
  void Serve();
  bool ServeFront(std::deque<ModelDemand>& queue);
  void Compare();
  void CompareBlock(uint32_t id);
  WatchedIndex::Entries Findable() const;
  void Complain(const std::string& what);
  void Expect(const std::string& expected, const absl::Status& status);

  Caller Of(size_t session) const;
  std::string TenantOf(size_t tenant) const { return "tenant" + std::to_string(tenant); }
  ModelPrefix RandomPrefix(size_t session, size_t max_text);
  // Of the session's blocks, or now and then of any; with generations or without.
  std::vector<BlockRef> RandomBlocks(size_t session, size_t count, bool may_be_others);
  std::optional<uint32_t> Choose(const std::vector<uint32_t>& leaves) const;

  const CacheRunOptions options_;
  Random& random_;
  Ledger ledger_;
  Watchers watchers_;
  CacheModel model_;
  TimePoint now_{std::chrono::seconds(1)};
  std::string call_;
  std::string wrong_;
  uint8_t opened_ = 0;
  std::map<size_t, SessionId> ids_;
  std::vector<Served> served_;
};

}  // namespace kvpool::test
