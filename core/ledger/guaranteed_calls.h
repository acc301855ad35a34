#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"

#include "core/ledger/first_fit.h"
#include "core/ledger/slots.h"

namespace kvpool {

// GuaranteedCalls finds, among the waiting calls of sessions with guarantees, the first that its
// session's guarantee covers and the pool has the blocks for: such a call passes those before it.
//
// Of each session, the calls that its guarantee covers stand in line by their needs, the first of
// each need alone: what a session takes or lets go costs no more than the needs that it covers or
// uncovers by that, however many calls wait. The lines are a tenant's each, for what it lacks of
// its quota differs; a search goes through all of them.
class GuaranteedCalls {
 public:
  // What a call must find to be served.
  struct Need {
    int64_t guarantee = 0;  // Of its session's guarantee, not filled.
    uint32_t blocks = 0;    // Free ones, and as much of its tenant's quota.

    auto operator<=>(const Need&) const = default;
  };
  // What a call is known by: calls are numbered in order of arrival.
  struct Caller {
    SessionSlot session{};
    TenantSlot tenant{};
  };

  GuaranteedCalls() = default;
  GuaranteedCalls(const GuaranteedCalls&) = delete;
  GuaranteedCalls& operator=(const GuaranteedCalls&) = delete;

  // Without a need a call is not found. Requires a number above all earlier ones.
  void Add(uint64_t number, const Caller& caller);
  void Remove(uint64_t number);
  void SetNeed(uint64_t number, std::optional<Need> need);
  std::optional<Need> need(uint64_t number) const { return calls_.at(number).need; }

  // How much of its guarantee the session has not filled; negative where it holds more. Nothing
  // happens where none of its calls is here.
  void SetUnfilled(SessionSlot slot, int64_t unfilled);

  // The first call that can be served where so many blocks are `room`, a tenant's.
  std::optional<uint64_t> Find(absl::FunctionRef<uint32_t(TenantSlot)> room) const;

  bool is_empty() const { return calls_.empty(); }

 private:
  struct Call {
    Caller caller;
    std::optional<Need> need;
  };
  struct Session {
    TenantSlot tenant{};
    int64_t unfilled = 0;
    uint32_t calls = 0;
    std::map<Need, std::set<uint64_t>> by_need;
  };

  absl::flat_hash_map<uint64_t, Call> calls_;  // By number.
  absl::flat_hash_map<SessionSlot, Session> sessions_;
  std::map<TenantSlot, FirstFit> lines_;
};

}  // namespace kvpool
