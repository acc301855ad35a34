#include "core/ids.h"

#include <string>
#include <vector>

#include "absl/hash/hash.h"

#include "tests/support/catch.h"

namespace kvpool {
namespace {

constexpr char kText[] = "00ff10a5deadbeef0123456789abcdef";

TEST_CASE("A session id is 32 lower-case hex digits and reads back what it writes") {
  const auto id = SessionId::Parse(kText);
  REQUIRE(id.ok());
  CHECK(id->bytes[0] == 0x00);
  CHECK(id->bytes[1] == 0xFF);
  CHECK(id->bytes[15] == 0xEF);
  CHECK(id->ToString() == kText);
  CHECK(SessionId{}.ToString() == std::string(32, '0'));
}

TEST_CASE("A session id's short form is its first eight digits") {
  CHECK(SessionId::Parse(kText)->Short() == "00ff10a5");
}

TEST_CASE("Parsing refuses all but 32 lower-case hex digits, without repeating the secret") {
  for (const std::string& text : std::vector<std::string>{
           "", "00ff10a5", std::string(kText) + "0", std::string(kText, 31),
           "00FF10A5DEADBEEF0123456789ABCDEF", "00ff10a5deadbeef0123456789abcdeg",
           " 0ff10a5deadbeef0123456789abcdef", std::string(32, '\0'), std::string(1 << 20, 'a')}) {
    CAPTURE(text.size());
    const auto id = SessionId::Parse(text);
    REQUIRE(absl::IsInvalidArgument(id.status()));
    const std::string message(id.status().message());
    CHECK(message.find("session_id has " + std::to_string(text.size()) + " characters") == 0);
    if (text.size() > 8) CHECK(message.find(text.substr(0, 8)) == std::string::npos);
  }
}

TEST_CASE("Session ids order and hash by their bytes") {
  const SessionId a = *SessionId::Parse("00000000000000000000000000000001");
  const SessionId b = *SessionId::Parse("01000000000000000000000000000000");
  CHECK(a < b);
  CHECK(a == *SessionId::Parse(a.ToString()));
  CHECK(absl::HashOf(a) == absl::HashOf(*SessionId::Parse(a.ToString())));
  CHECK(absl::HashOf(a) != absl::HashOf(b));
}

TEST_CASE("Block references are equal only in both id and generation") {
  const BlockRef ref{.block = BlockId{3}, .generation = Generation{9}};
  CHECK(ref == BlockRef{.block = BlockId{3}, .generation = Generation{9}});
  CHECK_FALSE(ref == BlockRef{.block = BlockId{3}, .generation = Generation{8}});
  CHECK_FALSE(ref == BlockRef{.block = BlockId{4}, .generation = Generation{9}});
  CHECK(ToIndex(BlockId{3}) == 3);
}

}  // namespace
}  // namespace kvpool
