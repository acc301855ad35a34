#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/strings/string_view.h"

namespace kvpool::cli {

enum class Verdict : uint8_t {
  kOk,
  kWarn,  // It works, but worse than it could, or not for everybody.
  kFail,  // It does not work until somebody does something.
};

// What `kvpoolctl doctor` found in one check. A value.
struct Finding {
  Verdict verdict{};
  absl::string_view check;  // Which one: a literal.
  std::string text;         // What was found and, unless it is OK, what to do. UTF-8.

  bool operator==(const Finding&) const = default;
};

// "OK", "WARN" or "FAIL".
absl::string_view VerdictName(Verdict verdict);

bool HasFailure(std::span<const Finding> findings);

// A line a finding, for people.
std::string FindingsText(std::span<const Finding> findings);

// {"checks": [{"check": "...", "result": "OK", "text": "..."}]}, in the same order.
std::string FindingsJson(std::span<const Finding> findings);

}  // namespace kvpool::cli
