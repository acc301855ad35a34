#include "tests/model/ledger/verdict.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "tests/model/ledger/call_text.h"

namespace kvpool::test {
namespace {

bool NamesAnEntry(Reason reason) {
  return reason == Reason::kStaleBlock || reason == Reason::kNotLive ||
         reason == Reason::kNotHeld || reason == Reason::kSealed || reason == Reason::kClaimed ||
         reason == Reason::kNotLeaf || reason == Reason::kBusy;
}

bool AllowsOne(const Verdict& verdict, absl::StatusCode code, const ErrorDetail& detail) {
  if (verdict.code != code || verdict.detail.reason != detail.reason) return false;
  if (detail.reason == Reason::kPoolFull) {
    return verdict.detail.available == kAnyNumber || verdict.detail.available == detail.available;
  }
  return !NamesAnEntry(detail.reason) ||
         (verdict.detail.index == detail.index && verdict.detail.block_id == detail.block_id);
}

std::string OneText(absl::StatusCode code, const ErrorDetail& detail) {
  if (code == absl::StatusCode::kOk) return "OK";
  std::string text =
      absl::StrCat(absl::StatusCodeToString(code), "/", std::string(ReasonName(detail.reason)));
  if (NamesAnEntry(detail.reason)) absl::StrAppend(&text, "#", detail.index, ":", detail.block_id);
  if (detail.reason == Reason::kPoolFull) absl::StrAppend(&text, " available=", detail.available);
  return text;
}

std::vector<BlockRef> Sorted(std::vector<BlockRef> blocks) {
  std::ranges::sort(blocks, {}, &BlockRef::block);
  return blocks;
}

// Whether two answers name the same blocks, those that a prefix matched in order, and last key.
bool AreSame(const AllocAnswer& a, const AllocAnswer& b) {
  return a.matched_blocks == b.matched_blocks && a.last_key == b.last_key &&
         Sorted(a.blocks) == Sorted(b.blocks) &&
         std::equal(a.blocks.begin(), a.blocks.begin() + a.matched_blocks, b.blocks.begin());
}

std::set<uint32_t> ToSet(const std::vector<BlockId>& blocks) {
  std::set<uint32_t> set;
  for (const BlockId block : blocks) set.insert(ToIndex(block));
  return set.size() == blocks.size() ? set : std::set<uint32_t>{UINT32_MAX};
}

// Whether an event is of a kind, and of what.
struct Matcher {
  const ExpectedEvent& expected;
  using Kind = ExpectedEvent::Kind;

  bool operator()(const AllocDone& event) const {
    if (expected.kind != Kind::kAllocDone || expected.id != event.id) return false;
    if (!Allows(expected.verdicts, event.result.status())) return false;
    return !event.result.ok() || (AreSame(*event.result, expected.answer) &&
                                  (expected.answer.available == kAnyNumber ||
                                   event.result->available == expected.answer.available));
  }
  bool operator()(const FillNeeded& event) const {
    return expected.kind == Kind::kFillNeeded && expected.id == event.id &&
           ToSet(event.zero) == expected.zero && ToSet(event.poison) == expected.poison;
  }
  bool operator()(const PinDone& event) const {
    return expected.kind == Kind::kPinDone && expected.id == event.id &&
           Allows(expected.verdicts, event.status);
  }
  bool operator()(const SessionEnded& event) const {
    return expected.kind == Kind::kEnded && expected.session == event.id &&
           expected.reason == event.reason;
  }
  bool operator()(const SessionForgotten& event) const {
    return expected.kind == Kind::kForgotten && expected.session == event.id;
  }
  bool operator()(const MemberGone& event) const {
    return expected.kind == Kind::kMemberGone && expected.session == event.id;
  }
  // Nobody watches here.
  bool operator()(const WatchReady& /*event*/) const { return false; }
};

// Whether the documents say which of the two comes first.
bool AreOrdered(const ExpectedEvent& a, const ExpectedEvent& b) {
  if (a.is_grant && b.is_grant) return true;
  if (a.id != PendingId{} || b.id != PendingId{}) return a.id == b.id;
  return a.session == b.session && a.kind != ExpectedEvent::Kind::kMemberGone &&
         b.kind != ExpectedEvent::Kind::kMemberGone;
}

std::string ExpectedText(const ExpectedEvent& event) {
  using Kind = ExpectedEvent::Kind;
  switch (event.kind) {
    case Kind::kAllocDone:
      return absl::StrCat("AllocDone{", ToText(event.id), " ", ToText(event.verdicts),
                          event.verdicts.front().ok() ? " " + ToText(event.answer) : "", "}");
    case Kind::kFillNeeded:
      return absl::StrCat("FillNeeded{", ToText(event.id), " zero=", absl::StrJoin(event.zero, ","),
                          " poison=", absl::StrJoin(event.poison, ","), "}");
    case Kind::kPinDone:
      return absl::StrCat("PinDone{", ToText(event.id), " ", ToText(event.verdicts), "}");
    case Kind::kEnded:
      return absl::StrCat("SessionEnded{", ToText(event.session), " ",
                          static_cast<int>(event.reason), "}");
    case Kind::kForgotten:
      return absl::StrCat("SessionForgotten{", ToText(event.session), "}");
    case Kind::kMemberGone:
      return absl::StrCat("MemberGone{", ToText(event.session), "}");
  }
  return "?";
}

std::string Difference(absl::string_view what, const std::vector<ExpectedEvent>& expected,
                       const std::vector<LedgerEvent>& events) {
  std::string text = absl::StrCat("events: ", std::string(what), "\n  expected:");
  for (const ExpectedEvent& event : expected) absl::StrAppend(&text, " ", ExpectedText(event));
  absl::StrAppend(&text, "\n  came:    ");
  for (const LedgerEvent& event : events) absl::StrAppend(&text, " ", ToText(event));
  return text;
}

}  // namespace

Verdicts Error(absl::StatusCode code, const ErrorDetail& detail) {
  return {Verdict{.code = code, .detail = detail}};
}

Verdicts Unknown() {
  return Error(absl::StatusCode::kNotFound, {.reason = Reason::kSessionUnknown});
}

Verdicts Wrong(Reason reason, size_t index, uint32_t block) {
  return Error(absl::StatusCode::kFailedPrecondition,
               {.reason = reason, .index = static_cast<uint32_t>(index), .block_id = block});
}

void Append(Verdicts* all, const Verdicts& more) {
  all->insert(all->end(), more.begin(), more.end());
}

bool Allows(const Verdicts& verdicts, const absl::Status& status) {
  const ErrorDetail detail = GetErrorDetail(status);
  return std::ranges::any_of(
      verdicts, [&](const Verdict& verdict) { return AllowsOne(verdict, status.code(), detail); });
}

std::string ToText(const Verdicts& verdicts) {
  std::vector<std::string> texts;
  for (const Verdict& verdict : verdicts) texts.push_back(OneText(verdict.code, verdict.detail));
  return absl::StrJoin(texts, " or ");
}

std::string ToText(const absl::Status& status) {
  return OneText(status.code(), GetErrorDetail(status));
}

std::string CompareEvents(const std::vector<ExpectedEvent>& expected,
                          const std::vector<LedgerEvent>& events) {
  if (expected.size() != events.size()) return Difference("how many", expected, events);
  std::vector<size_t> places;  // Of each event in `expected`.
  for (const LedgerEvent& event : events) {
    size_t place = 0;
    while (place < expected.size() && (std::ranges::count(places, place) > 0 ||
                                       !std::visit(Matcher{expected[place]}, event))) {
      ++place;
    }
    if (place == expected.size()) {
      return Difference(ToText(event) + " is unexpected", expected, events);
    }
    for (const size_t earlier : places) {
      if (earlier > place && AreOrdered(expected[earlier], expected[place])) {
        return Difference(ToText(event) + " comes too late", expected, events);
      }
    }
    places.push_back(place);
  }
  return {};
}

}  // namespace kvpool::test
