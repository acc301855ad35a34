#include "server/fd_budget.h"

#include <sys/resource.h>

#include <algorithm>

#include "absl/strings/match.h"

#include "server/limits.h"
#include "tests/support/catch.h"

namespace kvpool::server {
namespace {

// For two listeners and ten regions: as few as may be, and as many as are of use.
constexpr size_t kLeast = kSpareFds + 10 + 2 * kFdsPerConnection * kMinConnections;
constexpr size_t kMost =
    kSpareFds + 10 + 2 * kFdsPerConnection * (kMaxConnections + kMaxFdConnections);

TEST_CASE("Descriptors without end give every listener as many connections as it may have") {
  for (const size_t fd_count : {kMost, size_t{1} << 30}) {
    const auto budget = ShareFds(fd_count, 2, 10);
    REQUIRE(budget.ok());
    CHECK(budget->max_connections == kMaxConnections);
    CHECK(budget->max_process_connections == kMaxConnections / 8);
    CHECK(budget->max_fd_connections == kMaxFdConnections);
  }
}

TEST_CASE("Fewer descriptors are shared, and all connections together never take more") {
  for (size_t fd_count = kLeast; fd_count <= kMost; ++fd_count) {
    CAPTURE(fd_count);
    const auto budget = ShareFds(fd_count, 2, 10);
    REQUIRE(budget.ok());
    REQUIRE(budget->max_fd_connections >= 2);
    REQUIRE(budget->max_connections >= 2 * budget->max_fd_connections);
    REQUIRE(budget->max_process_connections >= std::min<size_t>(budget->max_connections, 8));
    REQUIRE(budget->max_process_connections <= budget->max_connections);
    const size_t connections = budget->max_connections + budget->max_fd_connections;
    REQUIRE(kSpareFds + 10 + 2 * kFdsPerConnection * connections <= fd_count);
  }
}

TEST_CASE("Too few descriptors are refused with how many there are and how many it takes") {
  const auto budget = ShareFds(kLeast - 1, 2, 10);
  CHECK(absl::IsResourceExhausted(budget.status()));
  const absl::string_view message = budget.status().message();
  CHECK(absl::StrContains(message, std::to_string(kLeast - 1)));
  CHECK(absl::StrContains(message, std::to_string(kLeast)));
  CHECK(absl::StrContains(message, std::to_string(kMost)));
}

TEST_CASE("The limit of open files is raised to the hard one") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit low{.rlim_cur = 64, .rlim_max = before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  CHECK(RaiseFdLimit() == std::min<rlim_t>(before.rlim_max, 1 << 30));
  rlimit after{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &after) == 0);
  CHECK(after.rlim_cur == before.rlim_max);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

}  // namespace
}  // namespace kvpool::server
