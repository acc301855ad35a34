#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

#include "core/mutex.h"
#include "kvpool/v1/admin.pb.h"
#include "server/process_table.h"

namespace kvpool::server {

// One accepted connection: who is at its other end, and what the listener lets it do.
struct Peer {
  uint64_t connection = 0;  // Never reused.
  v1::Role role = v1::ROLE_UNSPECIFIED;
  std::string tenant;
  std::string listener;  // Its address.
  std::shared_ptr<const Process> process;
};

// PeerTable leads from the name that gRPC has for a connection ("fd:17") to its Peer. A number
// that the kernel uses again leads to the new connection alone. Thread-safe.
class PeerTable {
 public:
  // The connection on `fd`, which gRPC is about to be given; replaces what the number meant.
  void Add(int fd, std::shared_ptr<const Peer> peer);
  // The connection closed, unless the number means another by now.
  void Remove(int fd, uint64_t connection);
  // Null where `grpc_peer` names no connection of ours.
  std::shared_ptr<const Peer> Find(absl::string_view grpc_peer) const;
  size_t size() const;

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<int, std::shared_ptr<const Peer>> peers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kvpool::server
