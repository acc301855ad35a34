#include "server/rpc/notice_queue.h"

#include <algorithm>
#include <utility>

namespace kvpool::server {

void NoticeQueue::Push(const v1::Notice& notice) {
  const auto same = std::ranges::find(notices_, notice.kind(), &v1::Notice::kind);
  if (same != notices_.end()) {
    *same = notice;
  } else {
    notices_.push_back(notice);
  }
}

v1::Notice NoticeQueue::Pop() {
  v1::Notice first = std::move(notices_.front());
  notices_.pop_front();
  return first;
}

}  // namespace kvpool::server
