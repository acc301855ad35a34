#include "server/rpc/convert.h"

#include <string>

#include "tests/support/catch.h"

namespace kvpool::server {
namespace {

v1::Blocks MakeBlocks(const std::vector<uint32_t>& ids, const std::vector<uint64_t>& generations) {
  v1::Blocks blocks;
  blocks.mutable_block_ids()->Assign(ids.begin(), ids.end());
  blocks.mutable_generations()->Assign(generations.begin(), generations.end());
  return blocks;
}

google::protobuf::Duration MakeDuration(int64_t seconds, int32_t nanos) {
  google::protobuf::Duration duration;
  duration.set_seconds(seconds);
  duration.set_nanos(nanos);
  return duration;
}

TEST_CASE("Blocks convert with and without generations") {
  const auto bare = ToBlockRefs("blocks", MakeBlocks({5, 6}, {}), 8);
  REQUIRE(bare.ok());
  CHECK(*bare == std::vector<BlockRef>{{BlockId{5}, Generation{0}}, {BlockId{6}, Generation{0}}});

  const auto full = ToBlockRefs("blocks", MakeBlocks({5, 6}, {1, 2}), 8);
  REQUIRE(full.ok());
  CHECK(*full == std::vector<BlockRef>{{BlockId{5}, Generation{1}}, {BlockId{6}, Generation{2}}});

  v1::Blocks back;
  FromBlockRefs(*full, back);
  CHECK(back.SerializeAsString() == MakeBlocks({5, 6}, {1, 2}).SerializeAsString());
}

TEST_CASE("Generations are none or as many as the ids") {
  const auto status = ToBlockRefs("release", MakeBlocks({5, 6, 7}, {1, 2}), 8).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()) ==
        "release has 3 block ids and 2 generations; give none or as many");
  CHECK(ToBlockRefs("blocks", MakeBlocks({}, {1}), 8).status().code() ==
        absl::StatusCode::kInvalidArgument);
}

TEST_CASE("A generation of 0 is refused, naming its place") {
  const auto status = ToBlockRefs("blocks", MakeBlocks({5, 6}, {1, 0}), 8).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()) ==
        "blocks gives generation 0 at index 1; a generation is never 0");
}

TEST_CASE("A list of as many blocks as allowed passes, and one more is refused") {
  const std::vector<uint32_t> ids(9, 0);
  CHECK(ToBlockRefs("blocks", MakeBlocks({ids.begin(), ids.end() - 1}, {}), 8).ok());
  const auto status = ToBlockRefs("blocks", MakeBlocks(ids, {}), 8).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()) == "blocks names 9 blocks; one call takes at most 8");
}

TEST_CASE("Durations convert both ways") {
  const auto duration = ToDuration("wait", MakeDuration(1, 500'000'000));
  REQUIRE(duration.ok());
  CHECK(*duration == std::chrono::milliseconds(1500));
  CHECK(DurationText(*duration) == "1.5s");
  google::protobuf::Duration back;
  FromDuration(*duration, back);
  CHECK(back.seconds() == 1);
  CHECK(back.nanos() == 500'000'000);
}

TEST_CASE("A duration that no limit is near does not overflow") {
  const auto duration = ToDuration("wait", MakeDuration(315'576'000'000, 999'999'999));
  REQUIRE(duration.ok());
  CHECK(*duration > std::chrono::hours(24 * 365 * 99));
  CHECK(std::chrono::steady_clock::now() + *duration > std::chrono::steady_clock::now());
}

TEST_CASE("A duration that is negative or not valid is refused, naming the value") {
  const auto status = ToDuration("ttl", MakeDuration(-3, 0)).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()).find("ttl is -3 seconds and 0 nanoseconds") == 0);
  for (const auto& wrong :
       {MakeDuration(0, -1), MakeDuration(0, 1'000'000'000), MakeDuration(315'576'000'001, 0),
        MakeDuration(INT64_MIN, 0), MakeDuration(INT64_MAX, 0), MakeDuration(0, INT32_MIN)}) {
    CAPTURE(wrong.seconds(), wrong.nanos());
    CHECK(ToDuration("ttl", wrong).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("A text is printable ASCII of at most so many bytes") {
  CHECK(CheckPrintable("client_name", "a b~", 4).ok());
  CHECK(CheckPrintable("client_name", "", 4).ok());
  CHECK(std::string(CheckPrintable("client_name", "abcde", 4).message()) ==
        "client_name has 5 bytes; it has at most 4");
  for (const char* wrong : {"a\n", "a\x7F", "a\x1F", "a\xC3\xA9"}) {
    const absl::Status status = CheckPrintable("client_name", wrong, 4);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(status.message()).find("at index 1") != std::string::npos);
  }
}

TEST_CASE("A fill or a side that there is not is refused") {
  CHECK(*ToFill("fill", v1::FILL_UNSPECIFIED) == Fill::kUnspecified);
  CHECK(*ToFill("fill", v1::FILL_ACROSS_TENANTS) == Fill::kAcrossTenants);
  CHECK(*ToFill("fill", v1::FILL_ZERO) == Fill::kZero);
  CHECK(*ToFill("fill", v1::FILL_POISON) == Fill::kPoison);
  CHECK(std::string(ToFill("fill", static_cast<v1::Fill>(9)).status().message()) ==
        "fill is 9, which is no Fill");
  CHECK(FromSide(*ToSide(v1::SIDE_K)) == v1::SIDE_K);
  CHECK(FromSide(*ToSide(v1::SIDE_V)) == v1::SIDE_V);
  CHECK(ToSide(v1::SIDE_UNSPECIFIED).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(ToSide(static_cast<v1::Side>(3)).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("Wall-clock time keeps the distances of monotonic time") {
  const TimePoint start(std::chrono::hours(1));
  const auto before = std::chrono::system_clock::now();
  const WallClock clock([start] { return start; });
  const auto after = std::chrono::system_clock::now();

  google::protobuf::Timestamp first;
  google::protobuf::Timestamp second;
  clock.Convert(start, first);
  clock.Convert(start + std::chrono::milliseconds(1500), second);

  const auto nanos = [](const google::protobuf::Timestamp& time) {
    return time.seconds() * 1'000'000'000 + time.nanos();
  };
  CHECK(nanos(second) - nanos(first) == 1'500'000'000);
  CHECK(nanos(first) >= std::chrono::nanoseconds(before.time_since_epoch()).count());
  CHECK(nanos(first) <= std::chrono::nanoseconds(after.time_since_epoch()).count());
}

}  // namespace
}  // namespace kvpool::server
