#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"

#include "tests/model/exhaustive/search.h"
#include "tests/support/catch.h"

// Every list of so many calls, made from a fresh ledger of three blocks that two sessions use: see
// Search for what is left out, and World for what is checked after each call. A fault comes with
// the calls that lead to it, to be made by hand.
//
// All calls together go as deep as fits into some seconds; each part of them goes on to eight calls
// and more. Under a sanitizer each is two calls shorter.

namespace kvpool::test {
namespace {

using Edges = std::set<std::string>;
using Reasons = std::set<Reason>;

// One run: which calls, how many, and what they have to come across.
struct Part {
  WorldOptions options;
  std::vector<Op> ops;
  uint32_t depth = 0;
  Reasons reasons;
  Edges edges;
};

std::vector<Op> AllOps() {
  std::vector<Op> ops;
  for (uint8_t op = 0; op < static_cast<uint8_t>(Op::kRepeat); ++op) ops.push_back(Op{op});
  return ops;
}

WorldOptions TwoTenants() { return {.tenants = {"acme", "umbra"}, .quota = 2}; }

Part AllCalls() {
  return {.options = {},
          .ops = AllOps(),
          .depth = 5,
          .reasons = {Reason::kGuarantee, Reason::kJoined, Reason::kAttached, Reason::kBusy,
                      Reason::kLimit, Reason::kClaimed, Reason::kNotLeaf, Reason::kPoolFull},
          .edges = {"FREE -> HELD", "HELD -> CACHED", "CACHED -> FREE", "CACHED -> FREE -> HELD",
                    "CACHED -> HELD", "HELD -> QUARANTINED"}};
}

Part AllCallsOfTwoTenants() {
  return {.options = TwoTenants(),
          .ops = AllOps(),
          .depth = 5,
          .reasons = {Reason::kQuota},
          .edges = {"HELD -> FREE -> HELD", "HELD -> QUARANTINED, filled"}};
}

Part References() {
  return {.options = {},
          .ops = {Op::kOpen, Op::kAlloc, Op::kAllocOrWait, Op::kSwap, Op::kIncRef, Op::kDecRef,
                  Op::kDecRefStale, Op::kClose, Op::kCancel, Op::kAdvance},
          .depth = 8,
          .reasons = {Reason::kSessionUnknown, Reason::kPoolFull, Reason::kNotHeld,
                      Reason::kNotLive, Reason::kStaleBlock, Reason::kLimit},
          .edges = {"FREE -> HELD", "HELD -> FREE", "HELD -> FREE -> HELD"}};
}

Part Prefixes() {
  return {.options = {},
          .ops = {Op::kOpen, Op::kAlloc, Op::kAcquire, Op::kDecRef, Op::kPublish, Op::kLookup,
                  Op::kEvict, Op::kEvictOne, Op::kResetAll},
          .depth = 8,
          .reasons = {Reason::kParentUnknown, Reason::kSealed, Reason::kNotLeaf},
          .edges = {"sealed", "HELD -> CACHED", "CACHED -> HELD", "CACHED -> FREE",
                    "CACHED -> FREE -> HELD"}};
}

Part Ends() {
  return {.options = {},
          .ops = {Op::kOpen, Op::kJoin, Op::kAttach, Op::kDetach, Op::kClose, Op::kTerminate,
                  Op::kTerminateReleasing, Op::kGone, Op::kAlloc, Op::kDecRef, Op::kAdvance,
                  Op::kReclaim},
          .depth = 8,
          .reasons = {Reason::kSessionUnknown, Reason::kAttached, Reason::kJoined},
          .edges = {"claimed", "HELD -> QUARANTINED, claimed", "QUARANTINED -> FREE"}};
}

Part Pins() {
  return {.options = {},
          .ops = {Op::kOpen, Op::kAlloc, Op::kDecRef, Op::kPinToRead, Op::kPinToWrite, Op::kUnpin,
                  Op::kCancel, Op::kPublish, Op::kLookup, Op::kClose},
          .depth = 8,
          .reasons = {Reason::kBusy, Reason::kSealed},
          .edges = {"pinned", "HELD -> QUARANTINED, pinned", "QUARANTINED -> CACHED",
                    "QUARANTINED -> HELD", "QUARANTINED -> FREE"}};
}

Part Fills() {
  return {.options = TwoTenants(),
          .ops = {Op::kOpen, Op::kAlloc, Op::kAllocZeroed, Op::kAllocOrWait, Op::kDecRef,
                  Op::kFilled, Op::kFillFailed, Op::kPinToRead, Op::kCancel, Op::kDetach},
          .depth = 8,
          .reasons = {Reason::kQuota, Reason::kPoolFull},
          .edges = {"HELD -> QUARANTINED, filled", "QUARANTINED -> FREE"}};
}

Part Repeats() {
  return {.options = {.has_keys = true},
          .ops = {Op::kOpen, Op::kAlloc, Op::kAllocOrWait, Op::kAllocZeroed, Op::kAcquireOrWait,
                  Op::kIncRef, Op::kDecRef, Op::kDecRefDone, Op::kPublish, Op::kLookup, Op::kFilled,
                  Op::kCancel, Op::kRepeat},
          .depth = 6,
          .reasons = {Reason::kKeySpent},
          .edges = {"FREE -> HELD"}};
}

std::string NamesOf(const Reasons& reasons) {
  return absl::StrJoin(reasons, " ", [](std::string* out, Reason reason) {
    out->append(std::string(ReasonName(reason)));
  });
}

template <typename Set>
Set Without(const Set& all, const Set& some) {
  Set rest;
  std::ranges::set_difference(all, some, std::inserter(rest, rest.end()));
  return rest;
}

void Run(const Part& part) {
  constexpr uint32_t kLessWhereSanitized = KVPOOL_IS_SANITIZED ? 2 : 0;
  Reached reached;
  const SearchResult result =
      Search(part.options, LettersOf(part.ops), part.depth - kLessWhereSanitized, reached);
  INFO("after\n" << ToText(result.calls));
  INFO("states by the number of calls: " << absl::StrJoin(result.states, " "));
  INFO("calls made: " << result.call_count);
  CHECK(result.fault == "");
  if (kLessWhereSanitized > 0 || !result.fault.empty()) return;
  CHECK(NamesOf(Without(part.reasons, reached.reasons)) == "");
  CHECK(absl::StrJoin(Without(part.edges, reached.edges), "; ") == "");
}

TEST_CASE("All lists of calls of two sessions of one tenant keep the rules") { Run(AllCalls()); }

TEST_CASE("All lists of calls of two tenants with a quota keep the rules") {
  Run(AllCallsOfTwoTenants());
}

TEST_CASE("All lists of calls that take and drop references keep the rules") { Run(References()); }

TEST_CASE("All lists of calls on prefixes keep the rules") { Run(Prefixes()); }

TEST_CASE("All lists of calls that open and end sessions keep the rules") { Run(Ends()); }

TEST_CASE("All lists of calls that pin blocks keep the rules") { Run(Pins()); }

TEST_CASE("All lists of calls whose blocks are filled keep the rules") { Run(Fills()); }

TEST_CASE("All lists of calls that are repeated by their keys keep the rules") { Run(Repeats()); }

TEST_CASE("The lists of calls take every arrow of a block's life and meet every reason") {
  Reasons met;
  Edges taken;
  for (const Part& part : {AllCalls(), AllCallsOfTwoTenants(), References(), Prefixes(), Ends(),
                           Pins(), Fills(), Repeats()}) {
    met.insert(part.reasons.begin(), part.reasons.end());
    taken.insert(part.edges.begin(), part.edges.end());
  }
  // What a ledger cannot know of: layouts, pids, pools coming and going, devices.
  const Reasons others = {Reason::kUnspecified, Reason::kLayoutMismatch, Reason::kPidCollision,
                          Reason::kInUse,       Reason::kStarting,       Reason::kDraining,
                          Reason::kDevice,      Reason::kDeviceFailed};
  Reasons all;
  for (uint32_t i = 0; i <= static_cast<uint32_t>(Reason::kDeviceFailed); ++i) {
    all.insert(Reason{i});
  }
  CHECK(NamesOf(Without(all, met)) == NamesOf(others));
  const Edges life = {"FREE -> HELD",
                      "HELD -> FREE",
                      "HELD -> CACHED",
                      "CACHED -> HELD",
                      "CACHED -> FREE",
                      "HELD -> QUARANTINED, claimed",
                      "HELD -> QUARANTINED, pinned",
                      "HELD -> QUARANTINED, filled",
                      "QUARANTINED -> HELD",
                      "QUARANTINED -> CACHED",
                      "QUARANTINED -> FREE",
                      "sealed",
                      "claimed",
                      "pinned"};
  CHECK(absl::StrJoin(Without(life, taken), "; ") == "");
}

}  // namespace
}  // namespace kvpool::test
