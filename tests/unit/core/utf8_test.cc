#include "core/utf8.h"

#include "tests/support/catch.h"

namespace kvpool {
namespace {

TEST_CASE("A UTF-8 character's size is told by its first bytes") {
  CHECK(Utf8CharacterSize("az") == 1);
  CHECK(Utf8CharacterSize(absl::string_view("\0", 1)) == 1);
  CHECK(Utf8CharacterSize("\xC3\xA9x") == 2);
  CHECK(Utf8CharacterSize("\xE2\x82\xACx") == 3);
  CHECK(Utf8CharacterSize("\xF0\x9F\x98\x80") == 4);
}

TEST_CASE("What is no UTF-8 character has no size") {
  CHECK(Utf8CharacterSize("\x80") == 0);
  CHECK(Utf8CharacterSize("\xC0\xAF") == 0);          // An overlong '/'.
  CHECK(Utf8CharacterSize("\xE0\x80\xAF") == 0);      // Another.
  CHECK(Utf8CharacterSize("\xF0\x80\x80\xAF") == 0);  // And another.
  CHECK(Utf8CharacterSize("\xED\xA0\x80") == 0);      // A surrogate.
  CHECK(Utf8CharacterSize("\xF4\x90\x80\x80") == 0);  // Beyond U+10FFFF.
  CHECK(Utf8CharacterSize("\xE2\x82") == 0);          // Cut.
  CHECK(Utf8CharacterSize("\xE2\x82z") == 0);
  CHECK(Utf8CharacterSize("\xFF") == 0);
}

TEST_CASE("A text is UTF-8 where all of it is") {
  CHECK(IsUtf8(""));
  CHECK(IsUtf8("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"));
  CHECK_FALSE(IsUtf8("caf\xE9"));
  CHECK_FALSE(IsUtf8("caf\xC3"));
}

}  // namespace
}  // namespace kvpool
