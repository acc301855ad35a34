#include "client/cli/table.h"

#include "tests/support/catch.h"

namespace kvpool::cli {
namespace {

TEST_CASE("A table's columns are as wide as their widest cell, numbers to the right") {
  Table table({"POOL", ">BLOCKS", "STATE"});
  table.AddRow({"a", "7", "ok"});
  table.AddRow({"longer-name", "123456789", "failed"});
  CHECK(table.ToString() ==
        "POOL            BLOCKS  STATE\n"
        "a                    7  ok\n"
        "longer-name  123456789  failed\n");
}

TEST_CASE("A table without rows is its titles, and one without titles its rows") {
  CHECK(Table({"A", ">B"}).ToString() == "A  B\n");
  CHECK(Table().ToString().empty());
  Table table;
  table.AddRow({"key", "value"});
  table.AddRow({"longer key", ""});
  CHECK(table.ToString() ==
        "key         value\n"
        "longer key\n");
}

TEST_CASE("A cell can neither break a line nor reach the terminal") {
  Table table({"NAME", "X"});
  table.AddRow({"a\nb\x1b[2J", "y"});
  CHECK(table.ToString() ==
        "NAME           X\n"
        "a\\x0ab\\x1b[2J  y\n");
}

}  // namespace
}  // namespace kvpool::cli
