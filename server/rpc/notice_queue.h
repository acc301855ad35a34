#pragma once

#include <deque>

#include "kvpool/v1/block.pb.h"

namespace kvpool::server {

// The notices that a session's stream has still to send: at most one of a kind, the latest, which
// says it all. Not thread-safe.
class NoticeQueue {
 public:
  void Push(const v1::Notice& notice);

  bool empty() const { return notices_.empty(); }
  // Takes the first. Requires that there is one.
  v1::Notice Pop();
  void Clear() { notices_.clear(); }

 private:
  std::deque<v1::Notice> notices_;
};

}  // namespace kvpool::server
