#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "core/error.h"
#include "core/ledger/calls.h"
#include "core/ledger/events.h"

namespace kvpool::test {

// Stands for any number of blocks, where it is not known.
inline constexpr uint32_t kAnyNumber = UINT32_MAX;

// One way in which a call may end.
struct Verdict {
  absl::StatusCode code = absl::StatusCode::kOk;
  ErrorDetail detail;

  bool ok() const { return code == absl::StatusCode::kOk; }
};

// The ways in which a call may end: more than one where an entry is wrong in several ways.
using Verdicts = std::vector<Verdict>;

inline Verdicts Ok() { return {Verdict{}}; }
Verdicts Unknown();  // SESSION_UNKNOWN.
Verdicts Error(absl::StatusCode code, const ErrorDetail& detail = {});
// FAILED_PRECONDITION for an entry of a list.
Verdicts Wrong(Reason reason, size_t index, uint32_t block);
void Append(Verdicts* all, const Verdicts& more);

// Whether `status` is one of `verdicts`. Index and block count only with the reasons for which
// the API promises them, `available` only with POOL_FULL.
bool Allows(const Verdicts& verdicts, const absl::Status& status);

std::string ToText(const Verdicts& verdicts);
std::string ToText(const absl::Status& status);

// An event that the model expects.
struct ExpectedEvent {
  enum class Kind { kAllocDone, kFillNeeded, kPinDone, kEnded, kForgotten, kMemberGone };

  Kind kind{};
  PendingId id{};
  SessionId session = {};
  SessionEnd reason{};
  Verdicts verdicts = {};        // kAllocDone, kPinDone.
  AllocAnswer answer = {};       // kAllocDone; the blocks in any order.
  std::set<uint32_t> zero = {};  // kFillNeeded.
  std::set<uint32_t> poison = {};
  bool is_grant = false;  // Of a call that waited: they come in the order of their turns.
};

// What is wrong with `events`, or nothing. They are to be the expected ones; those of one call or
// session, and grants among themselves, in the order expected.
std::string CompareEvents(const std::vector<ExpectedEvent>& expected,
                          const std::vector<LedgerEvent>& events);

}  // namespace kvpool::test
