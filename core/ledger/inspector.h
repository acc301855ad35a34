#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/ledger/state.h"

namespace kvpool {

// Inspector tells people what a ledger knows. It changes nothing.
class Inspector {
 public:
  // `state` must outlive it.
  explicit Inspector(const LedgerState& state) : state_(state) {}

  Inspector(const Inspector&) = delete;
  Inspector& operator=(const Inspector&) = delete;

  LedgerCounts Counts() const;
  bool IsIdle() const;
  BlockInfo Block(BlockId block) const;
  std::string TraceLine(BlockId block) const;
  absl::StatusOr<SessionInfo> FindSession(const SessionId& id, uint32_t max_blocks) const;
  std::vector<SessionInfo> Sessions() const;

 private:
  SessionInfo Describe(const Session& session) const;
  void ListBlocks(const Session& session, uint32_t max_blocks, SessionInfo& info) const;

  const LedgerState& state_;
};

}  // namespace kvpool
