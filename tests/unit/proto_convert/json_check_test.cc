#include "proto/convert/json_check.h"

#include <string>

#include "absl/strings/match.h"

#include "kvpool/v1/admin.pb.h"
#include "tests/support/catch.h"

namespace kvpool {
namespace {

std::string Refusal(const std::string& json) {
  v1::PoolSpec spec;
  const absl::Status status = ParseJson(json, spec);
  REQUIRE(absl::IsInvalidArgument(status));
  return std::string(status.message());
}

TEST_CASE("Of a oneof given twice the error names both fields, and what there is to choose") {
  CHECK(Refusal(R"({"num_blocks": 4, "memoryBytes": "1000"})") ==
        "line 1, column 16: num_blocks: 4: memory_bytes is given too; give one of num_blocks, "
        "memory_bytes, memory_utilization");
}

TEST_CASE("An enum's names are listed to who gives another, and those of lists and inner fields") {
  CHECK(Refusal(R"({"v_mode": "none"})") ==
        "line 1, column 12: v_mode: \"none\" is not one of V_MODE_SEPARATE, V_MODE_ALIASES_K, "
        "V_MODE_NONE");
  CHECK(absl::EndsWith(Refusal(R"({"memory_order": 7})"),
                       "7 is not one of MEMORY_ORDER_LAYER_MAJOR, MEMORY_ORDER_BLOCK_MAJOR"));
  CHECK(absl::EndsWith(Refusal(R"({"fillOnAlloc": "zero"})"),
                       "is not one of FILL_ACROSS_TENANTS, FILL_ZERO, FILL_POISON"));
  v1::DaemonConfig config;
  CHECK(absl::EndsWith(ParseJson(R"({"listeners": [{"role": "worker"}]})", config).message(),
                       "listeners[0].role: \"worker\" is not one of ROLE_WORKER, ROLE_INSPECTOR, "
                       "ROLE_OPERATOR"));
}

TEST_CASE("A field that is nearly one's name gets it told, in either spelling") {
  CHECK(absl::EndsWith(Refusal(R"({"num_layer": 2})"), "; did you mean num_layers?"));
  CHECK(absl::EndsWith(Refusal(R"({"numLayer": 2})"), "; did you mean numLayers?"));
  CHECK(absl::EndsWith(Refusal(R"({"layers": [{"fist": 0}]})"), "; did you mean first?"));
}

TEST_CASE("A field that is like no other gets all of the message's told") {
  CHECK(absl::StrContains(Refusal(R"({"capacity_in_gigabytes": 2})"),
                          "; the fields of PoolSpec are name, block_size, num_layers, "));
  CHECK(absl::EndsWith(Refusal(R"({"layers": [{"window": 0}]})"),
                       "; the fields of LayerOverride are first, last, dtype, num_kv_heads, "
                       "head_dim, v_head_dim"));
}

TEST_CASE("A comment is refused at its place in one line, also where nothing else is") {
  v1::DaemonConfig config;
  CHECK(ParseJson("{ // no\n}", config).message() ==
        "line 1, column 3: '/' outside of a text; there are no comments");
  CHECK(ParseJson("{\"pools\": [\n/* no */]}", config).message() ==
        "line 2, column 1: '/' outside of a text; there are no comments");
  CHECK(ParseJson(R"({"listeners": [{"tenant": "a\"//b"}]})", config).ok());
}

TEST_CASE("A key that is given twice is shown without its control characters") {
  CHECK(absl::StrContains(Refusal(R"({"a\u001b[2J": 1, "a\u001b[2J": 2})"),
                          "Duplicate key: 'a?[2J'"));
}

TEST_CASE("A size that is no number of bytes gets an example of one") {
  const std::string hint = " is not a whole number of bytes, such as 8589934592 for 8 GiB";
  for (const char* field : {"memory_bytes", "memoryBytes", "reserve_bytes", "raw_token_bytes"}) {
    for (const char* value : {"\"8GB\"", "1.5", "\"8 GiB\"", "true"}) {
      CAPTURE(field, value);
      CHECK(absl::EndsWith(Refusal(std::string("{\"") + field + "\": " + value + "}"),
                           std::string(value) + hint));
    }
  }
  CHECK(absl::EndsWith(Refusal(R"({"num_layers": "x"})"), "\"x\" is not a whole number"));
}

}  // namespace
}  // namespace kvpool
