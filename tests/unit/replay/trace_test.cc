#include "client/cli/replay/trace.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "tests/support/catch.h"
#include "tests/support/random.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/replay/trace_file.h"

namespace kvpool::replay {
namespace {

using std::chrono::milliseconds;

constexpr absl::string_view kGoodLine =
    R"({"timestamp": 27, "input_length": 1030, "output_length": 5, "hash_ids": [7, 8, 9]})";

absl::StatusOr<Trace> ReadText(absl::string_view text,
                               const TraceFormat& format = kMooncakeFormat) {
  const test::TempDir dir;
  return Trace::Read(test::WriteFile(dir.File("trace"), text), format);
}

// What is said about the second line, after a good one.
std::string ErrorOf(absl::string_view line) {
  const absl::Status status = ReadText(absl::StrCat(kGoodLine, "\n", line, "\n")).status();
  if (!absl::IsInvalidArgument(status)) return "no INVALID_ARGUMENT";
  const absl::string_view message = status.message();
  const size_t place = message.find("/trace:2: ");
  return std::string(place == absl::string_view::npos ? "no place" : message.substr(place + 10));
}

std::vector<uint64_t> Blocks(const Trace& trace, size_t request) {
  const auto blocks = trace.blocks(trace.requests()[request]);
  return {blocks.begin(), blocks.end()};
}

}  // namespace

TEST_CASE("A trace keeps the full blocks of each request, and leaves other fields aside") {
  const auto good = ReadText(
      absl::StrCat(kGoodLine, "\n\n \r\n",
                   R"({"type": {"a": [1]}, "hash_ids": [18446744073709551615], "timestamp": 27.6,)",
                   R"( "output_length": 0, "input_length": 512})"));
  REQUIRE(good.ok());
  REQUIRE(good->requests().size() == 2);
  CHECK(good->block_count() == 3);
  CHECK(good->requests()[0].time == milliseconds(27));
  CHECK(good->requests()[0].input_tokens == 1'030);
  CHECK(good->requests()[0].output_tokens == 5);
  CHECK(Blocks(*good, 0) == std::vector<uint64_t>{7, 8});
  CHECK(good->requests()[1].time == milliseconds(28));
  CHECK(Blocks(*good, 1) == std::vector<uint64_t>{UINT64_MAX});
}

TEST_CASE("A trace of small blocks has 16 tokens a block and seconds") {
  const auto trace =
      ReadText(R"({"chat_id": 3, "timestamp": 61.114, "input_length": 47, "output_length": 1,)"
               R"( "turn": 2, "hash_ids": [4, 5, 6]})",
               kSmallBlockFormat);
  REQUIRE(trace.ok());
  CHECK(trace->requests()[0].time == milliseconds(61'114));
  CHECK(Blocks(*trace, 0) == std::vector<uint64_t>{4, 5});
}

TEST_CASE("A trace is read from xz, and an empty one has no requests") {
  const auto trace = ReadText(test::CompressXz(kGoodLine));
  REQUIRE(trace.ok());
  CHECK(trace->block_count() == 2);
  const auto empty = ReadText("");
  REQUIRE(empty.ok());
  CHECK(empty->requests().empty());
}

TEST_CASE("A request of a trace does not go on in the next line") {
  const absl::string_view text = "{\"timestamp\": 27,\n\"input_length\": 1030}";
  CHECK(absl::IsInvalidArgument(ReadText(text).status()));
}

TEST_CASE("A trace that is not there is not found") {
  const test::TempDir dir;
  CHECK(absl::IsNotFound(Trace::Read(dir.File("missing"), kMooncakeFormat).status()));
}

TEST_CASE("A bad line of a trace is refused with its place and what is wrong") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"nonsense", "the line is no JSON: "},
      {"{\"timestamp\": 27", "the line is no JSON: "},
      {absl::StrCat(kGoodLine, kGoodLine), "the line is no JSON: "},
      {"[1, 2]", "the line is no JSON object"},
      {std::string(200, '['), "the JSON is more than 16 levels deep"},
      {"{}", "timestamp is missing"},
      {R"({"timestamp": "27"})", "timestamp is 27, not a time from 0 to 31 years"},
      {R"({"timestamp": [27]})", "timestamp is an array or object, not a time"},
      {R"({"timestamp": -1})", "timestamp is -1, not a time"},
      {R"({"timestamp": 1e300})", "not a time"},
      {R"({"timestamp": 27})", "input_length is missing"},
      {R"({"timestamp": 27, "input_length": 1.5})", "input_length is 1.5, not a count"},
      {R"({"timestamp": 27, "input_length": 4294967297})", "input_length is 4294967297, not"},
      {R"({"timestamp": 27, "input_length": 9})", "output_length is missing"},
      {R"({"timestamp": 27, "input_length": 9, "output_length": -9})", "output_length is -9, not"},
      {R"({"timestamp": 27, "input_length": 9, "output_length": 9})", "hash_ids is missing"},
      {R"({"timestamp": 27, "input_length": 9, "output_length": 9, "hash_ids": 3})",
       "hash_ids is 3, not an array"},
      {R"({"timestamp": 27, "input_length": 9, "output_length": 9, "hash_ids": ["x\ny"]})",
       "an entry of hash_ids is x\\x0ay, not a number"},
      {R"({"timestamp": 27, "input_length": 9, "output_length": 9, "hash_ids": [-1]})",
       "an entry of hash_ids is -1, not a number"},
      {R"({"timestamp": 27, "input_length": 1024, "output_length": 9, "hash_ids": [3]})",
       "hash_ids has 1 entries; the input fills 2 blocks"},
      {R"({"timestamp": 26, "input_length": 9, "output_length": 9, "hash_ids": [3]})",
       "timestamp is 26 ms, and 27 ms of the request before"},
  };
  for (const auto& [line, message] : cases) {
    CAPTURE(line, message, ErrorOf(line));
    CHECK(absl::StrContains(ErrorOf(line), message));
  }
}

TEST_CASE("A trace of randomly damaged lines is read or refused, and never more than that") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  int refused = 0;
  for (int run = 0; run < 2'000; ++run) {
    CAPTURE(seed, run);
    std::string text = absl::StrCat(kGoodLine, "\n", kGoodLine);
    if (random.OneIn(4)) text = test::CompressXz(text);
    for (uint32_t i = 1 + random.Below(3); i > 0; --i) {
      const size_t place = random.Below(static_cast<uint32_t>(text.size()));
      const char byte = random.OneIn(2) ? static_cast<char>(random.Below(256))
                                        : kGoodLine[random.Below(kGoodLine.size())];
      const uint32_t damage = random.Below(3);
      if (damage == 0) text[place] = byte;
      if (damage == 1) text.insert(place, 1, byte);
      if (damage == 2) text.erase(place);
      if (text.empty()) text = " ";
    }
    const auto trace = ReadText(text);
    if (!trace.ok()) ++refused;
    REQUIRE((trace.ok() || absl::IsInvalidArgument(trace.status())));
  }
  CHECK(refused > 500);
}

TEST_CASE("A replay's times are the trace's over its speed, and a century at the latest") {
  CHECK(TimeAtSpeed(milliseconds(10), 2) == milliseconds(5));
  CHECK(TimeAtSpeed(milliseconds(10), 0.5) == milliseconds(20));
  CHECK(TimeAtSpeed(milliseconds(0), 1e-300) == milliseconds(0));
  CHECK(TimeAtSpeed(Trace::kMaxTime, 1) == Trace::kMaxTime);
  const auto century = std::chrono::hours(24 * 365 * 100);
  CHECK(TimeAtSpeed(milliseconds(1), 1e-15) == century);
  CHECK(TimeAtSpeed(Trace::kMaxTime, 1e-300) == century);
}

}  // namespace kvpool::replay
