#include "server/log_budget.h"

#include <algorithm>
#include <utility>

namespace kvpool::server {

std::optional<uint64_t> LogBudget::Take(TimePoint now) {
  const MutexLock lock(mutex_);
  const TimePoint full_at = std::max(full_at_, now) + kInterval;
  if (full_at - now > kBurst * kInterval) {
    ++left_out_;
    return std::nullopt;
  }
  full_at_ = full_at;
  return std::exchange(left_out_, 0);
}

}  // namespace kvpool::server
