#include "core/hex.h"

#include "tests/support/catch.h"

namespace kvpool {
namespace {

TEST_CASE("hex digits of either case spell bytes") {
  CHECK(BytesFromHex("") == "");
  CHECK(BytesFromHex("00fF7a") == std::string("\x00\xff\x7a", 3));
}

TEST_CASE("what is not pairs of hex digits spells nothing") {
  for (const char* text : {"0", "abc", "0g", "g0", " 1", "1 ", "-1", "+1", "0x"}) {
    CAPTURE(text);
    CHECK_FALSE(BytesFromHex(text).has_value());
  }
}

}  // namespace
}  // namespace kvpool
