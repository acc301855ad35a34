#include "client/cli/text.h"

#include <string>
#include <vector>

#include "client/cli/exit_code.h"
#include "client/cli/time_view.h"
#include "tests/support/catch.h"

namespace kvpool::cli {
namespace {

TEST_CASE("Printable leaves printable ASCII alone and escapes every other byte") {
  std::string printable;
  for (char c = ' '; c <= '~'; ++c) printable.push_back(c);
  CHECK(Printable(printable) == printable);
  CHECK(Printable("a\nb\tc\r") == "a\\x0ab\\x09c\\x0d");
  CHECK(Printable("\x1b[31mred\x1b[0m") == "\\x1b[31mred\\x1b[0m");
  CHECK(Printable("\x7f\x9b"
                  "1A") == "\\x7f\\x9b1A");
  CHECK(Printable(absl::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(Printable("\xe2\x80\xae") == "\\xe2\\x80\\xae");  // Right-to-left override.
}

TEST_CASE("Bytes are exact, or have two decimals and are no less than there are") {
  CHECK(BytesText(0) == "0 B");
  CHECK(BytesText(1023) == "1023 B");
  CHECK(BytesText(1024) == "1 KiB");
  CHECK(BytesText(1025) == "1.01 KiB");
  CHECK(BytesText(1536) == "1.50 KiB");
  CHECK(BytesText(10'240) == "10 KiB");
  CHECK(BytesText(196'608) == "192 KiB");
  CHECK(BytesText(196'609) == "192.01 KiB");
  CHECK(BytesText((1 << 20) - 1) == "1.00 MiB");
  CHECK(BytesText(uint64_t{80} << 30) == "80 GiB");
  CHECK(BytesText((uint64_t{80} << 30) + 1) == "80.01 GiB");
  CHECK(BytesText(uint64_t{3} << 40) == "3 TiB");
  CHECK(BytesText(UINT64_MAX) == "16777216.00 TiB");
}

TEST_CASE("An age has its two greatest units") {
  const absl::Time now = absl::FromUnixSeconds(1'000'000'000);
  CHECK(AgeText(now, now) == "0s");
  CHECK(AgeText(now - absl::Seconds(59), now) == "59s");
  CHECK(AgeText(now - absl::Seconds(192), now) == "3m12s");
  CHECK(AgeText(now - absl::Hours(2) - absl::Minutes(5), now) == "2h5m");
  CHECK(AgeText(now - absl::Hours(52), now) == "2d4h");
  CHECK(AgeText(now + absl::Hours(1), now) == "0s");
}

TEST_CASE("A timestamp is shown in UTC with its age, and none as a dash") {
  google::protobuf::Timestamp time;
  const absl::Time now = absl::FromUnixSeconds(1'769'860'800);
  CHECK(TimeText(time, now) == "-");
  time.set_seconds(1'769'860'800 - 61);
  CHECK(TimeText(time, now) == "2026-01-31T11:58:59Z (1m1s ago)");
}

TEST_CASE("Block ids are shown as runs, in order") {
  CHECK(BlockRanges({}) == "none");
  CHECK(BlockRanges(std::vector<uint32_t>{5}) == "5");
  CHECK(BlockRanges(std::vector<uint32_t>{0, 1, 2, 3}) == "0-3");
  CHECK(BlockRanges(std::vector<uint32_t>{0, 1, 7, 20, 21, 19}) == "0-1, 7, 20-21, 19");
  CHECK(BlockRanges(std::vector<uint32_t>{3, 3, 2}) == "3, 3, 2");
  CHECK(BlockRanges(std::vector<uint32_t>{UINT32_MAX, 0}) == "4294967295, 0");
}

TEST_CASE("A block list is ids and ranges, in order, repetitions kept") {
  const auto list = [](absl::string_view text) { return ParseBlockList(text).value(); };
  CHECK(list("7") == std::vector<uint32_t>{7});
  CHECK(list("0-3") == std::vector<uint32_t>{0, 1, 2, 3});
  CHECK(list("0-1,20, 7,7") == std::vector<uint32_t>{0, 1, 20, 7, 7});
  CHECK(list("4294967294-4294967295") == std::vector<uint32_t>{4'294'967'294, 4'294'967'295});
  CHECK(list("0-1048575").size() == kMaxListedBlocks);
}

TEST_CASE("A block list that cannot be read is a usage error") {
  for (const char* text : {"", ",", "1,", "a", "1-", "-1", "3-2", "1-2-3", "4294967296", "0x1",
                           "0-1048576", "0-4294967295", "0-1048575,7", "1\x1b"}) {
    CAPTURE(text);
    const auto ids = ParseBlockList(text);
    REQUIRE_FALSE(ids.ok());
    CHECK(ExitCodeFor(ids.status()) == ExitCode::kUsage);
    CHECK(ids.status().message().find('\x1b') == absl::string_view::npos);
  }
}

TEST_CASE("Bytes are read with and without a unit") {
  CHECK(ParseBytes("0").value() == 0);
  CHECK(ParseBytes("1000000").value() == 1'000'000);
  CHECK(ParseBytes("18446744073709551615").value() == UINT64_MAX);
  CHECK(ParseBytes("1KiB").value() == 1024);
  CHECK(ParseBytes("512MiB").value() == 512ULL << 20);
  CHECK(ParseBytes("80GiB").value() == 80ULL << 30);
  CHECK(ParseBytes("80 GiB").value() == 80ULL << 30);
  CHECK(ParseBytes("1.5TiB").value() == 3ULL << 39);
  for (const char* text : {"", "x", "-1", "1GB", "GiB", "nanGiB", "-1GiB", "infTiB", "16777216TiB",
                           "18446744073709551616", "1 GiB x"}) {
    CAPTURE(text);
    CHECK(ExitCodeFor(ParseBytes(text).status()) == ExitCode::kUsage);
  }
}

TEST_CASE("An enum's name loses its prefix") {
  CHECK(EnumText("STATE_HELD", "STATE_") == "held");
  CHECK(EnumText("", "STATE_").empty());
}

TEST_CASE("Tokens are numbers apart by white space or commas, in brackets or not") {
  using Tokens = std::vector<uint32_t>;
  CHECK(*ParseTokens("1 2\n3,4,\t5") == Tokens{1, 2, 3, 4, 5});
  CHECK(*ParseTokens(" [ 7, 4294967295 ]\n") == Tokens{7, 4294967295});
  CHECK(ParseTokens("")->empty());
  CHECK(ParseTokens("[]")->empty());
  for (const char* const wrong : {"1 x", "-1", "4294967296", "[1", "1]", "1.5", "[[1]]"}) {
    CAPTURE(wrong);
    CHECK(ExitCodeFor(ParseTokens(wrong).status()) == ExitCode::kUsage);
  }
}

}  // namespace
}  // namespace kvpool::cli
