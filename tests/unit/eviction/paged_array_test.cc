#include "core/ledger/eviction/paged_array.h"

#include "tests/support/catch.h"

namespace kvpool {
namespace {

struct Element {
  int value = 17;
};

}  // namespace

TEST_CASE("PagedArray makes elements with their default, and keeps what is written to them") {
  PagedArray<Element, 4> array;
  CHECK(array.Make(9).value == 17);
  array[9].value = 3;
  CHECK(array.Make(9).value == 3);
  CHECK(array[8].value == 17);
}

TEST_CASE("PagedArray never moves an element") {
  PagedArray<Element, 4> array;
  const Element* const first = &array.Make(0);
  for (size_t i = 1; i < 1'000; ++i) array.Make(i);
  CHECK(&array[0] == first);
}

TEST_CASE("PagedArray allocates the pages that were asked for, and a pointer for those below") {
  PagedArray<Element, 1'000> array;
  CHECK(array.size_bytes() == 0);
  CHECK_FALSE(array.has(0));
  array.Make(1'000'000);
  CHECK(array.has(1'000'999));
  CHECK_FALSE(array.has(999'999));
  CHECK_FALSE(array.has(2'000'000));
  CHECK(array.size_bytes() <= 1'000 * sizeof(Element) + 2 * 1'001 * sizeof(void*));
}

}  // namespace kvpool
