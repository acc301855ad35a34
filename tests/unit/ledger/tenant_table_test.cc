#include "core/ledger/tenant_table.h"

#include <string>

#include "tests/support/catch.h"

namespace kvpool {
namespace {

TEST_CASE("TenantTable gives one tenant one number while it has sessions") {
  TenantTable table;
  const TenantSlot a = table.AddSession("a");
  const TenantSlot b = table.AddSession("b");
  CHECK(a != b);
  CHECK(table.AddSession("a") == a);
  CHECK(table.name(a) == "a");
  CHECK(table.name(kNoTenant).empty());
  table.DropSession(a);
  CHECK(table.size() == 2);
  table.DropSession(a);
  CHECK(table.size() == 1);
}

TEST_CASE("TenantTable counts the blocks in use of each tenant") {
  TenantTable table;
  const TenantSlot a = table.AddSession("a");
  const TenantSlot b = table.AddSession("b");
  table.TakeBlock(a, kNoTenant);
  table.TakeBlock(a, kNoTenant);
  CHECK(table.used_blocks(a) == 2);
  table.FreeBlock(a);
  table.TakeBlock(b, a);
  CHECK(table.used_blocks(a) == 1);
  CHECK(table.used_blocks(b) == 1);
}

TEST_CASE("TenantTable knows a tenant while some block was its own last") {
  TenantTable table;
  const TenantSlot a = table.AddSession("a");
  table.TakeBlock(a, kNoTenant);
  table.FreeBlock(a);
  table.DropSession(a);
  CHECK(table.name(a) == "a");

  const TenantSlot b = table.AddSession("b");
  CHECK(b != a);
  table.TakeBlock(b, a);
  CHECK(table.size() == 1);
  CHECK(table.AddSession("c") == a);
}

TEST_CASE("TenantTable's size is bounded however many tenants come and go") {
  TenantTable table;
  for (int i = 0; i < 1'000; ++i) {
    const TenantSlot tenant = table.AddSession("uid-" + std::to_string(i));
    REQUIRE(ToIndex(tenant) == 0);
    table.DropSession(tenant);
  }
  CHECK(table.size() == 0);
}

}  // namespace
}  // namespace kvpool
