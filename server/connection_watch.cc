#include "server/connection_watch.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include <spdlog/spdlog.h>

#include "core/check.h"
#include "core/status_macros.h"
#include "server/logging.h"

namespace kvpool::server {
namespace {

// A poller's token is a listener's index, or this bit and a connection.
constexpr uint64_t kConnectionBit = uint64_t{1} << 63;

// gRPC's descriptors are numbered from here, in turn, up to kLastNumber or the process's limit:
// a number comes again after thousands of connections. The kernel's table for that many has
// 128 KiB.
constexpr int kFirstNumber = 64;
constexpr int kLastNumber = 16'384;

// gRPC usually closes within a millisecond; a handler that takes its time may hold it up.
constexpr Duration kFirstLook = std::chrono::milliseconds(5);
constexpr Duration kLastLook = std::chrono::seconds(1);

bool IsSameSocket(int a, int b) {
  struct stat first {};
  struct stat second {};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

// Tells an HTTP/2 client why it is turned away: its calls fail with the text. What cannot be sent
// at once is not sent.
void SendGoAway(int fd, absl::string_view text) {
  KVPOOL_CHECK(text.size() < 128);
  std::string frames;
  // SETTINGS, empty, on stream 0.
  frames.append({0, 0, 0, 4, 0, 0, 0, 0, 0});
  // GOAWAY on stream 0: no stream was looked at, ENHANCE_YOUR_CALM (11), and the text.
  frames.append({0, 0, static_cast<char>(8 + text.size()), 7, 0, 0, 0, 0, 0});
  frames.append({0, 0, 0, 0, 0, 0, 0, 11});
  frames.append(text.data(), text.size());
  [[maybe_unused]] const ssize_t size =
      send(fd, frames.data(), frames.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionWatch>> ConnectionWatch::Create(
    Options options, std::vector<const Listener*> listeners, ProcessTable& processes,
    PeerTable& peers) {
  KVPOOL_ASSIGN_OR_RETURN(std::unique_ptr<Poller> poller, Poller::Create());
  return absl::WrapUnique(new ConnectionWatch(std::move(options), std::move(listeners), processes,
                                              peers, std::move(poller)));
}

ConnectionWatch::ConnectionWatch(Options options, std::vector<const Listener*> listeners,
                                 ProcessTable& processes, PeerTable& peers,
                                 std::unique_ptr<Poller> poller)
    : options_(std::move(options)),
      listeners_(std::move(listeners)),
      processes_(processes),
      peers_(peers),
      poller_(std::move(poller)),
      next_number_(kFirstNumber),
      counts_(listeners_.size(), 0) {}

void ConnectionWatch::Begin() {
  for (size_t i = 0; i < listeners_.size(); ++i) {
    acceptors_.push_back(std::make_unique<Acceptor>(*poller_, listeners_[i]->grpc_fd(), i));
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

ConnectionWatch::~ConnectionWatch() {
  thread_.request_stop();
  poller_->Wake();
  if (thread_.joinable()) thread_.join();
  absl::flat_hash_map<uint64_t, Connection> left;
  {
    const MutexLock lock(mutex_);
    left.swap(connections_);
  }
  for (const auto& [id, connection] : left) {
    if (std::ranges::find(closing_, id) == closing_.end()) {
      processes_.ConnectionClosed(*connection.peer->process);
    }
    peers_.Remove(connection.fd, id);
  }
}

void ConnectionWatch::StopAccepting() {
  const MutexLock lock(mutex_);
  is_accepting_ = false;
  poller_->Wake();
  while (has_listeners_) stopped_.wait(mutex_);
}

void ConnectionWatch::EndConnections(ProcessId process) {
  const MutexLock lock(mutex_);
  for (const auto& [id, connection] : connections_) {
    if (connection.peer->process->id() == process) shutdown(connection.watch.get(), SHUT_RDWR);
  }
}

size_t ConnectionWatch::connection_count() const {
  const MutexLock lock(mutex_);
  return connections_.size();
}

void ConnectionWatch::Run(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "kv-connections");
  while (!stop.stop_requested()) RunOnce();
}

void ConnectionWatch::RunOnce() {
  for (const Poller::Event& event : poller_->Wait(NextTime())) {
    if ((event.token & kConnectionBit) != 0) {
      MarkClosing(event.token & ~kConnectionBit);
    } else {
      Accept(event.token);
    }
  }
  LetListenersGo();
  for (const std::unique_ptr<Acceptor>& acceptor : acceptors_) acceptor->Resume();
  if (!closing_.empty() && next_look_ <= std::chrono::steady_clock::now()) ForgetClosed();
}

std::optional<TimePoint> ConnectionWatch::NextTime() const {
  std::optional<TimePoint> next;
  if (!closing_.empty()) next = next_look_;
  for (const std::unique_ptr<Acceptor>& acceptor : acceptors_) {
    const std::optional<TimePoint> time = acceptor->resume_time();
    if (time.has_value()) next = std::min(next.value_or(*time), *time);
  }
  return next;
}

void ConnectionWatch::LetListenersGo() {
  const MutexLock lock(mutex_);
  if (is_accepting_ || !has_listeners_) return;
  acceptors_.clear();
  has_listeners_ = false;
  stopped_.notify_all();
}

void ConnectionWatch::Accept(size_t listener) {
  // An event may be from before StopAccepting.
  if (listener >= acceptors_.size()) return;
  for (UniqueFd& fd : acceptors_[listener]->Take()) Admit(listener, std::move(fd));
}

void ConnectionWatch::Admit(size_t listener, UniqueFd fd) {
  const Listener& source = *listeners_[listener];
  bool is_full = false;
  {
    const MutexLock lock(mutex_);
    is_full = counts_[listener] >= options_.max_connections;
  }
  if (is_full) {
    TurnAway(listener, fd, "too many connections");
    return;
  }
  absl::StatusOr<std::shared_ptr<const Process>> process = processes_.FromSocket(fd.get());
  if (!process.ok()) {
    spdlog::warn("event=connection_refused listener={} message={}", LogText(source.address()),
                 LogText(process.status().message()));
    return;
  }
  {
    const MutexLock lock(mutex_);
    const auto count = process_counts_.find({listener, (*process)->id()});
    is_full = count != process_counts_.end() && count->second >= options_.max_process_connections;
  }
  if (is_full) {
    TurnAway(listener, fd, "too many connections of this process");
    return;
  }
  const std::string& tenant = source.spec().tenant;
  const auto peer = std::make_shared<const Peer>(
      Peer{.connection = next_connection_++,
           .role = source.spec().role,
           .tenant = tenant.empty() ? absl::StrCat("uid-", (*process)->uid()) : tenant,
           .listener = source.address(),
           .process = *std::move(process)});
  UniqueFd watch(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  fd = Renumber(std::move(fd));
  if (!watch.is_valid() || !Enter(listener, fd, std::move(watch), peer)) {
    spdlog::warn("event=connection_refused listener={} reason=no_descriptors",
                 LogText(source.address()));
    return;
  }
  spdlog::debug("event=connection_opened connection={} listener={} tenant={} pid={} uid={}",
                peer->connection, LogText(source.address()), LogText(peer->tenant),
                peer->process->pid(), peer->process->uid());
  options_.adopt(fd.Release());
}

void ConnectionWatch::TurnAway(size_t listener, const UniqueFd& fd, absl::string_view reason) {
  SendGoAway(fd.get(), reason);
  spdlog::warn("event=connection_refused listener={} message={}",
               LogText(listeners_[listener]->address()), LogText(reason));
}

UniqueFd ConnectionWatch::Renumber(UniqueFd fd) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    UniqueFd renumbered(fcntl(fd.get(), F_DUPFD_CLOEXEC, next_number_));
    if (renumbered.is_valid() && renumbered.get() < kLastNumber) {
      next_number_ = renumbered.get() + 1;
      return renumbered;
    }
    next_number_ = kFirstNumber;  // Past the last, or past the process's limit.
  }
  return fd;
}

bool ConnectionWatch::Enter(size_t listener, const UniqueFd& fd, UniqueFd watch,
                            const std::shared_ptr<const Peer>& peer) {
  const uint64_t id = peer->connection;
  const int watched = watch.get();
  {
    const MutexLock lock(mutex_);
    if (!poller_->Add(watched, EPOLLRDHUP | EPOLLHUP, kConnectionBit | id).ok()) return false;
    ++counts_[listener];
    ++process_counts_[{listener, peer->process->id()}];
    connections_.emplace(
        id,
        Connection{.watch = std::move(watch), .fd = fd.get(), .listener = listener, .peer = peer});
  }
  peers_.Add(fd.get(), peer);
  processes_.ConnectionOpened(*peer->process);
  // EndConnections came too early for this one.
  if (peer->process->is_gone()) shutdown(watched, SHUT_RDWR);
  return true;
}

void ConnectionWatch::MarkClosing(uint64_t connection) {
  std::shared_ptr<const Peer> peer;
  {
    const MutexLock lock(mutex_);
    const auto it = connections_.find(connection);
    KVPOOL_CHECK(it != connections_.end());
    poller_->Remove(it->second.watch.get());
    peer = it->second.peer;
  }
  processes_.ConnectionClosed(*peer->process);
  // Not put off by the others that close meanwhile.
  const TimePoint first_look = std::chrono::steady_clock::now() + kFirstLook;
  next_look_ = closing_.empty() ? first_look : std::min(next_look_, first_look);
  look_interval_ = kFirstLook;
  closing_.push_back(connection);
  spdlog::debug("event=connection_closed connection={}", connection);
}

void ConnectionWatch::ForgetClosed() {
  // Destroyed after the mutex is let go: a process may be forgotten with its last connection.
  std::vector<Connection> forgotten;
  {
    const MutexLock lock(mutex_);
    std::erase_if(closing_, [&](uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      const auto it = connections_.find(id);
      // The copy keeps the socket, so no other can have become the same.
      if (IsSameSocket(it->second.watch.get(), it->second.fd)) return false;
      --counts_[it->second.listener];
      const auto of_process =
          process_counts_.find({it->second.listener, it->second.peer->process->id()});
      if (--of_process->second == 0) process_counts_.erase(of_process);
      forgotten.push_back(std::move(it->second));
      connections_.erase(it);
      return true;
    });
  }
  for (const Connection& connection : forgotten) {
    peers_.Remove(connection.fd, connection.peer->connection);
  }
  look_interval_ = std::min(2 * look_interval_, kLastLook);
  next_look_ = std::chrono::steady_clock::now() + look_interval_;
}

}  // namespace kvpool::server
