#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/ids.h"
#include "core/mutex.h"
#include "server/acceptor.h"
#include "server/listener.h"
#include "server/peer.h"
#include "server/poller.h"
#include "server/process_table.h"
#include "server/unique_fd.h"

namespace kvpool::server {

// ConnectionWatch accepts the connections of gRPC listeners, finds out who they are of, hands them
// to gRPC and notices their close: gRPC tells nobody of it.
//
// It keeps a copy of each connection's descriptor. A connection that is closed at the other end
// stays in the peer table until gRPC has closed its own descriptor too, as handlers may ask who
// called until then. One thread; public calls are thread-safe.
class ConnectionWatch {
 public:
  struct Options {
    // Of one listener, of all processes and of each; further ones are turned away.
    size_t max_connections = 0;
    size_t max_process_connections = 0;
    // Gives gRPC a connected, non-blocking socket, which is gRPC's to close from then on.
    std::function<void(int fd)> adopt;
  };

  // All arguments must outlive it. RESOURCE_EXHAUSTED where the kernel gives no more descriptors.
  static absl::StatusOr<std::unique_ptr<ConnectionWatch>> Create(
      Options options, std::vector<const Listener*> listeners, ProcessTable& processes,
      PeerTable& peers);
  ~ConnectionWatch();

  ConnectionWatch(const ConnectionWatch&) = delete;
  ConnectionWatch& operator=(const ConnectionWatch&) = delete;

  // Accepts from now on. Called once.
  void Begin();

  // Accepts no more; those that are open stay. In effect when it returns. Requires Begin.
  void StopAccepting();

  // Ends the connections of a process that is gone: a child that inherited one must not speak in
  // its parent's name.
  void EndConnections(ProcessId process);

  // Those that gRPC has not closed yet.
  size_t connection_count() const;

 private:
  struct Connection {
    UniqueFd watch;  // The copy.
    int fd = -1;     // gRPC's.
    size_t listener = 0;
    std::shared_ptr<const Peer> peer;
  };

  ConnectionWatch(Options options, std::vector<const Listener*> listeners, ProcessTable& processes,
                  PeerTable& peers, std::unique_ptr<Poller> poller);

  void Run(const std::stop_token& stop);
  void RunOnce();
  void Accept(size_t listener);
  void Admit(size_t listener, UniqueFd fd);
  // Closes the connection, telling the client why.
  void TurnAway(size_t listener, const UniqueFd& fd, absl::string_view reason);
  // Gives the connection a descriptor number that has not been used for long, where it can.
  UniqueFd Renumber(UniqueFd fd);
  // Hands the connection over. False, changing nothing, where it cannot be watched.
  bool Enter(size_t listener, const UniqueFd& fd, UniqueFd watch,
             const std::shared_ptr<const Peer>& peer);
  // The connection was closed, at either end.
  void MarkClosing(uint64_t connection);
  // Forgets the connections that gRPC has closed too.
  void ForgetClosed();
  // Lets the listeners go once StopAccepting was called.
  void LetListenersGo();
  std::optional<TimePoint> NextTime() const;

  const Options options_;
  const std::vector<const Listener*> listeners_;
  ProcessTable& processes_;
  PeerTable& peers_;
  const std::unique_ptr<Poller> poller_;

  // The thread's own.
  std::vector<std::unique_ptr<Acceptor>> acceptors_;  // By listener.
  uint64_t next_connection_ = 1;
  int next_number_;
  std::vector<uint64_t> closing_;  // Connections that gRPC may not have closed yet.
  Duration look_interval_{};       // How soon to look again whether it has.
  TimePoint next_look_;

  mutable Mutex mutex_;
  std::condition_variable_any stopped_;
  absl::flat_hash_map<uint64_t, Connection> connections_ ABSL_GUARDED_BY(mutex_);
  std::vector<size_t> counts_ ABSL_GUARDED_BY(mutex_);  // Of connections, by listener.
  // The same of each process that has any.
  absl::flat_hash_map<std::pair<size_t, ProcessId>, size_t> process_counts_ ABSL_GUARDED_BY(mutex_);
  bool is_accepting_ ABSL_GUARDED_BY(mutex_) = true;   // Wanted.
  bool has_listeners_ ABSL_GUARDED_BY(mutex_) = true;  // What is.

  std::jthread thread_;  // Last: it uses the others.
};

}  // namespace kvpool::server
