#include "tests/model/exhaustive/letter.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace kvpool::test {
namespace {

// What comes after the name of an operation.
enum class Kind : uint8_t { kAlone, kOfSession, kWithCount, kWithBlock, kOfFirst, kOfSecond };

struct Form {
  absl::string_view name;
  Kind kind{};
};

// By Op.
constexpr std::array kForms = {
    Form{"Open", Kind::kOfSession},
    Form{"OpenSession with a guarantee of 2", Kind::kOfSession},
    Form{"OpenSession that joins A", Kind::kOfSecond},
    Form{"Attach", Kind::kOfSession},
    Form{"Detach", Kind::kOfSession},
    Form{"CloseSession", Kind::kOfSession},
    Form{"TerminateSession", Kind::kOfSession},
    Form{"TerminateSession with release_claims", Kind::kOfSession},
    Form{"ProcessGone", Kind::kOfSession},
    Form{"Alloc", Kind::kWithCount},
    Form{"Alloc of a zeroed block", Kind::kOfSession},
    Form{"Alloc with wait", Kind::kWithCount},
    Form{"Alloc of 1 with wait that releases", Kind::kWithBlock},
    Form{"Acquire xy", Kind::kOfSession},
    Form{"Acquire xy with wait", Kind::kOfSession},
    Form{"IncRef", Kind::kWithBlock},
    Form{"IncRef at another generation", Kind::kWithBlock},
    Form{"IncRef without a generation", Kind::kWithBlock},
    Form{"DecRef", Kind::kWithBlock},
    Form{"DecRef at another generation", Kind::kWithBlock},
    Form{"DecRef done", Kind::kWithBlock},
    Form{"Publish", Kind::kWithBlock},
    Form{"Lookup xy with acquire", Kind::kOfSession},
    Form{"Evict", Kind::kWithBlock},
    Form{"Evict one", Kind::kOfSession},
    Form{"ResetPrefixes of the tenant", Kind::kOfFirst},
    Form{"ResetPrefixes of all", Kind::kAlone},
    Form{"Pin to read", Kind::kWithBlock},
    Form{"Pin to write", Kind::kWithBlock},
    Form{"Unpin", Kind::kAlone},
    Form{"Cancel", Kind::kAlone},
    Form{"FillDone", Kind::kAlone},
    Form{"FillDone with an error", Kind::kAlone},
    Form{"Advance to what is due next", Kind::kAlone},
    Form{"Reclaim one", Kind::kAlone},
    Form{"the last call again, with its key", Kind::kAlone},
};
static_assert(kForms.size() == static_cast<size_t>(Op::kRepeat) + 1);

const Form& FormOf(Op op) { return kForms[static_cast<size_t>(op)]; }

}  // namespace

std::string ToText(const Letter& letter) {
  const Form& form = FormOf(letter.op);
  std::string text(form.name);
  if (form.kind == Kind::kWithCount) absl::StrAppend(&text, " ", uint32_t{letter.number});
  if (form.kind == Kind::kWithBlock) absl::StrAppend(&text, " block ", uint32_t{letter.number});
  if (letter.op == Op::kPublish) absl::StrAppend(&text, letter.depth == 0 ? " as x" : " as xy");
  if (form.kind != Kind::kAlone) absl::StrAppend(&text, ", ", letter.session == 0 ? "A" : "B");
  return text;
}

std::string ToText(const std::vector<Letter>& letters) {
  std::string text;
  for (size_t i = 0; i < letters.size(); ++i) {
    absl::StrAppend(&text, i + 1, ". ", ToText(letters[i]), "\n");
  }
  return text;
}

std::vector<Letter> LettersOf(const std::vector<Op>& ops) {
  std::vector<Letter> letters;
  for (const Op op : ops) {
    const Kind kind = FormOf(op).kind;
    if (kind == Kind::kAlone || kind == Kind::kOfFirst) {
      letters.push_back({.op = op});
      continue;
    }
    for (uint8_t session = kind == Kind::kOfSecond ? 1 : 0; session < kSessions; ++session) {
      const uint8_t first = kind == Kind::kWithCount ? 1 : 0;
      const uint8_t last = kind == Kind::kWithCount   ? 2
                           : kind == Kind::kWithBlock ? kBlocks - 1
                                                      : 0;
      for (uint8_t number = first; number <= last; ++number) {
        letters.push_back({.op = op, .session = session, .number = number});
        if (op == Op::kPublish) letters.push_back({op, session, number, 1});
      }
    }
  }
  return letters;
}

}  // namespace kvpool::test
