#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/layout/pool_layout.h"
#include "tests/support/catch.h"

namespace kvpool::test {

// What is wrong, and what its error must begin with: the field and the value. Checked through
// PlanPool, so that it does not matter which step finds it.
struct WrongSpec {
  const char* what;
  std::function<void(PoolSpec&)> spoil;
  const char* message_start;
};

inline void CheckRefused(const PoolSpec& spec, const std::string& message_start) {
  const auto layout = PlanPool(spec);
  REQUIRE(absl::IsInvalidArgument(layout.status()));
  const std::string message(layout.status().message());
  CAPTURE(message);
  CHECK(message.substr(0, message_start.size()) == message_start);
}

inline void CheckAllRefused(const PoolSpec& base, const std::vector<WrongSpec>& cases) {
  REQUIRE(PlanPool(base).ok());
  for (const WrongSpec& wrong : cases) {
    CAPTURE(wrong.what);
    PoolSpec spec = base;
    wrong.spoil(spec);
    CheckRefused(spec, wrong.message_start);
  }
}

inline constexpr uint32_t kMax32 = std::numeric_limits<uint32_t>::max();

}  // namespace kvpool::test
