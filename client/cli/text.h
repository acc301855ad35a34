#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace kvpool::cli {

// `text` with every byte that is not printable ASCII as \xNN: what others chose (names, messages)
// cannot move the cursor, change colours or fake a line.
std::string Printable(absl::string_view text);

// "512 B", "64 GiB", "1.51 KiB": without decimals exactly that, else with two, rounded up, so that
// it is never less than there is.
std::string BytesText(uint64_t bytes);

// How long ago `time` was, in its two greatest units: "3m12s", "2d4h". "0s" for the future.
std::string AgeText(absl::Time time, absl::Time now);

// "0-15, 20, 7-8": runs of ascending ids, in the order given. "none" for none.
std::string BlockRanges(std::span<const uint32_t> ids);

// Reads "0-15,20,7", in order, repetitions kept. A usage error, naming the part, where one is no
// id and no range, runs backwards, or where there are more than `kMaxListedBlocks`.
absl::StatusOr<std::vector<uint32_t>> ParseBlockList(absl::string_view text);
inline constexpr size_t kMaxListedBlocks = size_t{1} << 20;

// Reads tokens: numbers apart by white space or commas, in brackets or not. A usage error, naming
// what is none.
absl::StatusOr<std::vector<uint32_t>> ParseTokens(absl::string_view text);

// Reads a number of bytes: "1000000", "80GiB", "1.5TiB" (KiB to TiB). A usage error otherwise.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);

// The name of an enum value without its type's prefix, in lower case: ("STATE_HELD", "STATE_")
// gives "held".
std::string EnumText(absl::string_view name, absl::string_view prefix);

}  // namespace kvpool::cli
