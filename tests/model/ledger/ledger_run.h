#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "tests/model/ledger/choices.h"
#include "tests/model/ledger/ledger_model.h"

namespace kvpool::test {

// What a run is about.
struct RunOptions {
  LedgerOptions ledger;
  uint32_t sessions = 4;       // About as many are open.
  uint32_t max_guarantee = 0;  // Of a session.
  // Whether times differ by nanoseconds. If not, much falls due at one time.
  bool has_jitter = true;
  uint32_t max_ttl_ticks = 60;
  uint32_t max_wait_ticks = 15;
  uint32_t cache_calls = 30;  // Of a hundred.
  uint32_t max_text = 4;      // Blocks of a prefix, of so many letters.
  uint32_t letters = 2;
};

// LedgerRun makes random calls on a ledger and on a model of it, and compares the two after each.
// The same options and choices make the same run.
class LedgerRun {
 public:
  LedgerRun(const RunOptions& options, Choices choices);

  // Makes `steps` calls, or as many as there are choices for, then lets go of everything and looks
  // at what is left. Returns what went wrong, with the last calls before it, or nothing.
  std::string Run(uint32_t steps);

 private:
  // A keyed call, to be made once more.
  struct Keyed {
    AllocCall alloc = {};
    IncRefCall inc = {};
    DecRefCall dec = {};
    PublishCall publish = {};
    LookupCall lookup = {};
    enum { kAlloc, kInc, kDec, kPublish, kLookup } kind{};
    std::vector<BlockRef> list = {};  // Theirs.
    PrefixKeys prefix = {};
  };

  void Step();
  void DrainStep();
  std::string CheckAllIsFree();

  // ledger_run_calls.cc: one call each.
  void OpenSession();
  void Attach();
  void AddProcess();
  void Detach();
  void BeginCall();
  void EndCall();
  void Close(const Caller& caller);
  void CloseOrEndProcess();
  void Terminate();
  void ProcessGone();
  void Alloc();
  void MakeAlloc(AllocCall call);
  void FillDone(const absl::Status& status);
  void Cancel();
  void IncRef();
  void MakeIncRef(const IncRefCall& call);
  void DecRef();
  void MakeDecRef(const DecRefCall& call);
  void Repeat();
  void RepeatOne(Keyed keyed);
  void Pin();
  void Unpin();
  void CheckHeld();
  void Advance();
  void AdvanceIfSliced();
  void Reclaim(uint32_t max_references);

  // ledger_run_cache.cc: the same on the prefix cache.
  void CacheStep();
  void Acquire();
  void Publish();
  void PublishAgain();
  void MakePublish(const PublishCall& call);
  void Lookup();
  void MakeLookup(const LookupCall& call);
  void Evict();
  void ResetPrefixes();
  PrefixKeys AnyPrefix(absl::string_view tenant);
  std::vector<BlockRef> SomeToPublish(const SessionId& session, size_t count);
  std::vector<BlockRef> SomeFindable(absl::string_view tenant);

  // Notes a call and what came of it, and compares.
  void Follow(const std::string& call, const std::string& result, const Seen& seen);
  Seen Look();

  // Random choices.
  void PassTime();
  Duration Some(uint32_t ticks);
  SessionId AnySession();
  Caller AnyCaller();
  ProcessId AnyProcess();
  Generation AnyGeneration(uint32_t block);
  BlockRef AnyBlock();
  std::vector<BlockRef> SomeHeld(const SessionId& session, bool is_right);
  std::vector<BlockRef> SomeBlocks(const SessionId& session);
  uint64_t AnyKey();
  Fill AnyFill();
  template <typename T>
  const T& OneOf(const std::vector<T>& list) {
    return list[random_.Below(static_cast<uint32_t>(list.size()))];
  }

  const RunOptions options_;
  Choices random_;
  Ledger ledger_;
  LedgerModel model_;
  TimePoint now_;
  uint32_t last_session_ = 0;
  uint64_t last_process_ = 0;
  std::vector<Keyed> keyed_;
  std::deque<std::string> log_;
  std::string failure_;
};

}  // namespace kvpool::test
