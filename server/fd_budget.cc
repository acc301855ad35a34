#include "server/fd_budget.h"

#include <sys/resource.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "server/limits.h"

namespace kvpool::server {

size_t RaiseFdLimit() {
  rlimit limit{};
  KVPOOL_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = limit.rlim_max;
  // Where it fails, what there is must do.
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
  KVPOOL_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  return static_cast<size_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 30));
}

absl::StatusOr<FdBudget> ShareFds(size_t fd_count, size_t listener_count, size_t region_count) {
  KVPOOL_CHECK(listener_count > 0);
  const size_t reserved = kSpareFds + region_count;
  const size_t connection_fds = listener_count * kFdsPerConnection;
  const size_t needed = reserved + connection_fds * kMinConnections;
  if (fd_count < needed) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the hard limit of open files (ulimit -Hn, LimitNOFILE=) is ", fd_count,
                     "; the daemon needs at least ", needed, " with ", listener_count,
                     " listeners and ", region_count, " regions in its config, and ",
                     reserved + connection_fds * (kMaxConnections + kMaxFdConnections),
                     " to serve as many connections as it can"));
  }
  const size_t connections = (fd_count - reserved) / connection_fds;
  // Connections of the fd sockets are short: a quarter is more than their share.
  const size_t max_fd_connections = std::min(kMaxFdConnections, connections / 4);
  const size_t max_connections = std::min(kMaxConnections, connections - max_fd_connections);
  return FdBudget{.max_connections = max_connections,
                  .max_process_connections = std::max(max_connections / kProcessShare,
                                                      std::min(kMinConnections, max_connections)),
                  .max_fd_connections = max_fd_connections};
}

}  // namespace kvpool::server
