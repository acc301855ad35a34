#include "client/cli/text.h"

#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "client/cli/exit_code.h"
#include "core/status_macros.h"

namespace kvpool::cli {
namespace {

constexpr std::array<absl::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};

absl::Status NotABlockList(absl::string_view part) {
  return UsageError(absl::StrCat("\"", Printable(part), "\" is no block id and no range such as ",
                                 "0-15, in a list such as 0-15,20"));
}

// Reads "7" or "0-15" and appends what it names.
absl::Status AppendPart(absl::string_view part, std::vector<uint32_t>& ids) {
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(part, absl::MaxSplits('-', 1));
  const bool is_range = part.size() != ends.first.size();
  uint32_t first = 0;
  uint32_t last = 0;
  if (!absl::SimpleAtoi(ends.first, &first) ||
      !absl::SimpleAtoi(is_range ? ends.second : ends.first, &last) || last < first) {
    return NotABlockList(part);
  }
  if (uint64_t{last} - first + 1 > kMaxListedBlocks - ids.size()) {
    return UsageError(absl::StrCat("more than ", kMaxListedBlocks, " blocks are listed"));
  }
  // Counted by an offset, so that the greatest id there is ends the loop.
  for (uint32_t i = 0; i <= last - first; ++i) ids.push_back(first + i);
  return absl::OkStatus();
}

}  // namespace

std::string Printable(absl::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c >= ' ' && c <= '~') {
      safe.push_back(c);
    } else {
      absl::StrAppendFormat(&safe, "\\x%02x", static_cast<unsigned char>(c));
    }
  }
  return safe;
}

std::string BytesText(uint64_t bytes) {
  size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes >> (10 * (unit + 1)) > 0) ++unit;
  uint64_t whole = bytes >> (10 * unit);
  const uint64_t one = uint64_t{1} << (10 * unit);
  const uint64_t rest = bytes % one;
  if (rest == 0) return absl::StrCat(whole, " ", kUnits[unit]);
  // At most 2^40 * 100.
  uint64_t hundredths = (rest * 100 + one - 1) / one;
  whole += hundredths / 100;
  hundredths %= 100;
  if (whole == 1024 && unit + 1 < kUnits.size()) {
    whole = 1;
    ++unit;
  }
  return absl::StrFormat("%d.%02d %s", whole, hundredths, kUnits[unit]);
}

std::string AgeText(absl::Time time, absl::Time now) {
  const int64_t seconds = absl::ToInt64Seconds(now - time);
  if (seconds <= 0) return "0s";
  if (seconds < 60) return absl::StrCat(seconds, "s");
  if (seconds < 3600) return absl::StrCat(seconds / 60, "m", seconds % 60, "s");
  if (seconds < 86'400) return absl::StrCat(seconds / 3600, "h", seconds % 3600 / 60, "m");
  return absl::StrCat(seconds / 86'400, "d", seconds % 86'400 / 3600, "h");
}

std::string BlockRanges(std::span<const uint32_t> ids) {
  if (ids.empty()) return "none";
  std::string text;
  for (size_t i = 0; i < ids.size();) {
    size_t end = i + 1;
    while (end < ids.size() && ids[end - 1] != std::numeric_limits<uint32_t>::max() &&
           ids[end] == ids[end - 1] + 1) {
      ++end;
    }
    absl::StrAppend(&text, i == 0 ? "" : ", ", ids[i]);
    if (end - i > 1) absl::StrAppend(&text, "-", ids[end - 1]);
    i = end;
  }
  return text;
}

absl::StatusOr<std::vector<uint32_t>> ParseBlockList(absl::string_view text) {
  std::vector<uint32_t> ids;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    KVPOOL_RETURN_IF_ERROR(AppendPart(absl::StripAsciiWhitespace(part), ids));
  }
  return ids;
}

absl::StatusOr<std::vector<uint32_t>> ParseTokens(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (absl::ConsumePrefix(&text, "[") != absl::ConsumeSuffix(&text, "]")) {
    return UsageError("a list of tokens has one bracket");
  }
  std::vector<uint32_t> tokens;
  for (const absl::string_view part :
       absl::StrSplit(text, absl::ByAnyChar(", \t\r\n"), absl::SkipEmpty())) {
    uint32_t token = 0;
    if (!absl::SimpleAtoi(part, &token)) {
      return UsageError(
          absl::StrCat("\"", Printable(part.substr(0, 32)), "\" is no token: a number below 2^32"));
    }
    tokens.push_back(token);
  }
  return tokens;
}

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  uint64_t bytes = 0;
  if (absl::SimpleAtoi(text, &bytes)) return bytes;
  double factor = 1;
  for (size_t unit = 1; unit < kUnits.size(); ++unit) {
    factor *= 1024;
    absl::string_view number = text;
    double value = 0;
    if (!absl::ConsumeSuffix(&number, kUnits[unit]) || !absl::SimpleAtod(number, &value)) continue;
    // 2^64 itself is a double, and the first that does not fit; a NaN fails too.
    if (!(value >= 0 && value * factor < 0x1p64)) break;
    return static_cast<uint64_t>(std::floor(value * factor));
  }
  return UsageError(absl::StrCat("\"", Printable(text),
                                 "\" is no number of bytes such as 1000000, or of KiB, MiB, GiB or "
                                 "TiB such as 80GiB"));
}

std::string EnumText(absl::string_view name, absl::string_view prefix) {
  absl::ConsumePrefix(&name, prefix);
  return absl::AsciiStrToLower(name);
}

}  // namespace kvpool::cli
