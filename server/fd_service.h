#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/ids.h"
#include "server/acceptor.h"
#include "server/listener.h"
#include "server/poller.h"
#include "server/pool_registry.h"
#include "server/process_table.h"
#include "server/session_hub.h"
#include "server/unique_fd.h"

namespace kvpool::server {

// FdService hands the descriptors of host regions to workers, on the `.fd` sockets beside the
// listeners: `kvpool.v1.SharedMemoryFd` is what it speaks.
//
// Who is given a descriptor is one of the session's processes before it has it. The descriptor is
// the region's own: it reads and writes, and the memory's seals, which are sealed too, cannot be
// changed through it. Nobody who is slow, silent or wrong is waited for: the connection ends.
// Nobody can take the place of others: when a listener is full, a new connection ends the one
// heard longest ago of the process that has most. One thread; the destructor ends it.
class FdService {
 public:
  struct Options {
    size_t max_connections = 0;  // Of one listener; at least 1. One more makes room, as above.
    Duration max_silence{};      // Between two packets, and before the first.
  };

  // Serves from now on. All arguments must outlive it. RESOURCE_EXHAUSTED where the kernel gives
  // no more descriptors.
  static absl::StatusOr<std::unique_ptr<FdService>> Start(Options options,
                                                          std::vector<const Listener*> listeners,
                                                          ProcessTable& processes,
                                                          SessionHub& sessions,
                                                          PoolRegistry& pools);
  ~FdService();

  FdService(const FdService&) = delete;
  FdService& operator=(const FdService&) = delete;

 private:
  // What counts as one process: a user's pid, or its id where the pid cannot be seen.
  using Caller = std::tuple<uid_t, pid_t, ProcessId>;
  struct Connection {
    UniqueFd fd;
    size_t listener = 0;
    std::shared_ptr<const Process> process;
    std::string tenant;
    TimePoint deadline;
    std::list<uint64_t>::iterator place;  // In `by_deadline_`.
  };
  // What a request is answered with: the region's descriptor, which `pool` keeps open.
  struct Grant {
    std::shared_ptr<Pool> pool;
    int fd = -1;
    uint64_t size_bytes = 0;
  };

  FdService(Options options, std::vector<const Listener*> listeners, ProcessTable& processes,
            SessionHub& sessions, PoolRegistry& pools, std::unique_ptr<Poller> poller);

  void Run(const std::stop_token& stop);
  void RunOnce();
  void Accept(size_t listener);
  void Admit(size_t listener, UniqueFd fd);
  // Ends the connection of a listener that is full which `newcomer` is to have the place of.
  void MakeRoom(size_t listener, const Process& newcomer);
  static Caller CallerOf(const Process& process);
  // Reads and answers one packet. False where the connection is to end.
  bool Serve(Connection& connection);
  absl::StatusOr<Grant> GrantRegion(const Connection& connection,
                                    const v1::RegionFdRequest& request);
  void Touch(uint64_t id, Connection& connection);
  void End(uint64_t id);
  void EndSilent();
  std::optional<TimePoint> NextTime() const;

  const Options options_;
  const std::vector<const Listener*> listeners_;
  ProcessTable& processes_;
  SessionHub& sessions_;
  PoolRegistry& pools_;
  const std::unique_ptr<Poller> poller_;

  // The thread's own.
  std::vector<std::unique_ptr<Acceptor>>
      acceptors_;  // By listener; null where it has no fd socket.
  absl::flat_hash_map<uint64_t, Connection> connections_;
  std::list<uint64_t> by_deadline_;  // All are as long: the one heard last is the last.
  std::vector<size_t> counts_;       // Of connections, by listener.
  uint64_t next_connection_ = 1;
  uint64_t ended_for_room_ = 0;  // Since the log said so.
  TimePoint next_log_;           // When it may say so again.

  std::jthread thread_;  // Last: it uses the others.
};

}  // namespace kvpool::server
