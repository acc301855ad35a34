#include "client/cli/replay/report.h"

#include <json/json.h>

#include "tests/support/catch.h"

namespace kvpool::replay {

TEST_CASE("Of nothing any part is 0 percent") {
  CHECK(Percent(0, 0) == 0);
  CHECK(Percent(1, 4) == 25);
}

TEST_CASE("A field of CSV is in quotes where it has a comma, a quote or a newline") {
  CHECK(CsvField("trace.jsonl.xz") == "trace.jsonl.xz");
  CHECK(CsvField("a,b") == "\"a,b\"");
  CHECK(CsvField("a\"b\nc") == "\"a\"\"b\nc\"");
}

TEST_CASE("JSON's figures have three decimals at most") {
  Json::Value value;
  value["a"] = 1.23456;
  value["b"] = 7;
  CHECK(JsonText(value) == "{\n  \"a\" : 1.235,\n  \"b\" : 7\n}\n");
}

}  // namespace kvpool::replay
