#include "core/nearest_name.h"

#include <array>
#include <string>

#include "tests/support/catch.h"

namespace kvpool {
namespace {

constexpr std::array<absl::string_view, 5> kNames = {"status", "sessions", "session", "pool",
                                                     "pools"};

TEST_CASE("A name with one letter missing, too much, another or swapped is found") {
  for (const char* text : {"statu", "statuss", "stxtus", "statsu", "tsatus", "status"}) {
    CAPTURE(text);
    CHECK(NearestName(text, kNames) == "status");
  }
}

TEST_CASE("The nearest name is found, and the first of those that are as near") {
  CHECK(NearestName("sesions", kNames) == "sessions");
  CHECK(NearestName("sesion", kNames) == "session");
  CHECK(NearestName("poola", kNames) == "pool");
}

TEST_CASE("A text that differs in more than a third of its letters is no name's") {
  CHECK(NearestName("stxxus", kNames) == "status");
  CHECK(NearestName("sxxxus", kNames).empty());
  CHECK(NearestName("", kNames).empty());
  CHECK(NearestName("po", kNames).empty());
  CHECK(NearestName("status", {}).empty());
  CHECK(NearestName(std::string(100'000, 's'), kNames).empty());
}

}  // namespace
}  // namespace kvpool
