#include "core/ledger/prefix/paged_array.h"

#include "tests/support/catch.h"

namespace kvpool {
namespace {

TEST_CASE("PagedArray has the pages that were made, and no others") {
  PagedArray<int, 4> array(7);
  CHECK_FALSE(array.has(0));
  array.Make(9);
  for (size_t i = 0; i < 16; ++i) {
    CAPTURE(i);
    CHECK(array.has(i) == (i >= 8 && i < 12));
  }
}

TEST_CASE(
    "PagedArray's elements begin as told, stay where they are, and keep what they are set to") {
  PagedArray<int, 4> array(7);
  array.Make(1);
  int* const element = &array[1];
  CHECK(*element == 7);
  *element = 8;
  for (size_t i = 0; i < 1'000; ++i) array.Make(i);
  CHECK(&array[1] == element);
  CHECK(array[1] == 8);
  CHECK(array[999] == 7);
}

}  // namespace
}  // namespace kvpool
