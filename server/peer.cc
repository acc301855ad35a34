#include "server/peer.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace kvpool::server {

void PeerTable::Add(int fd, std::shared_ptr<const Peer> peer) {
  const MutexLock lock(mutex_);
  // Swapped, not assigned: what the number meant is destroyed after the mutex is let go, as its
  // process may be forgotten with it.
  peers_[fd].swap(peer);
}

void PeerTable::Remove(int fd, uint64_t connection) {
  std::shared_ptr<const Peer> removed;
  const MutexLock lock(mutex_);
  const auto it = peers_.find(fd);
  if (it == peers_.end() || it->second->connection != connection) return;
  removed = std::move(it->second);
  peers_.erase(it);
}

std::shared_ptr<const Peer> PeerTable::Find(absl::string_view grpc_peer) const {
  int fd = -1;
  if (!absl::ConsumePrefix(&grpc_peer, "fd:") || !absl::SimpleAtoi(grpc_peer, &fd)) return nullptr;
  const MutexLock lock(mutex_);
  const auto it = peers_.find(fd);
  return it == peers_.end() ? nullptr : it->second;
}

size_t PeerTable::size() const {
  const MutexLock lock(mutex_);
  return peers_.size();
}

}  // namespace kvpool::server
