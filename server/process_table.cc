#include "server/process_table.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "core/check.h"
#include "core/mutex.h"
#include "core/status_macros.h"
#include "server/peer_identity.h"
#include "server/poller.h"

namespace kvpool::server {
namespace {

// The table itself. Shared with the processes that it made, which leave it when they are
// destroyed, maybe after the table's end.
class Registry : public std::enable_shared_from_this<Registry> {
 public:
  Registry(Duration reclaim_delay, std::unique_ptr<Poller> poller)
      : reclaim_delay_(reclaim_delay), poller_(std::move(poller)) {}

  absl::StatusOr<std::shared_ptr<const Process>> Enter(PeerIdentity peer);
  void Opened(ProcessId id);
  void Closed(ProcessId id);

  // Waits until something may be to tell, and tells it.
  void RunOnce(const ProcessTable::OnGone& on_gone);
  void Wake() { poller_->Wake(); }

 private:
  struct Entry {
    std::weak_ptr<const Process> process;
    std::optional<ProcessKey> key;
    UniqueFd pidfd;  // Watched; none with kDelay, or once the process is gone.
    size_t connections = 0;
    std::optional<TimePoint> gone_time;  // With kDelay: when it counts as gone.
    bool is_gone = false;
  };
  using Entries = absl::flat_hash_map<ProcessId, Entry>;

  std::shared_ptr<const Process> Find(const ProcessKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Nobody holds the process any more.
  void Leave(ProcessId id);
  // Takes the process out of what new connections can lead to, and its pidfd out of the watch.
  void Retire(ProcessId id, Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those among the processes that are gone, retired. They stay entered while somebody holds
  // them.
  std::vector<std::shared_ptr<const Process>> TakeGone(std::span<const Poller::Event> events);
  std::optional<TimePoint> NextTime() const;

  const Duration reclaim_delay_;
  const std::unique_ptr<Poller> poller_;

  mutable Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<ProcessKey, ProcessId> by_key_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
};

std::shared_ptr<const Process> Registry::Find(const ProcessKey& key) {
  const auto it = by_key_.find(key);
  if (it == by_key_.end()) return nullptr;
  const auto entry = entries_.find(it->second);
  KVPOOL_CHECK(entry != entries_.end());
  std::shared_ptr<const Process> process = entry->second.process.lock();
  // A new connection puts off the end of a process that had none.
  if (process != nullptr && entry->second.gone_time.has_value()) {
    entry->second.gone_time = std::chrono::steady_clock::now() + reclaim_delay_;
  }
  return process;
}

absl::StatusOr<std::shared_ptr<const Process>> Registry::Enter(PeerIdentity peer) {
  const MutexLock lock(mutex_);
  if (peer.key.has_value()) {
    if (std::shared_ptr<const Process> known = Find(*peer.key)) return known;
  }
  const ProcessId id{next_id_++};
  if (peer.pidfd.is_valid()) {
    KVPOOL_RETURN_IF_ERROR(poller_->Add(peer.pidfd.get(), EPOLLIN, static_cast<uint64_t>(id)));
  }
  const ReclaimProof proof = peer.pidfd.is_valid() ? ReclaimProof::kPidfd : ReclaimProof::kDelay;
  std::shared_ptr<const Process> process(new Process(id, peer.pid, peer.uid, proof),
                                         [registry = shared_from_this()](const Process* last) {
                                           registry->Leave(last->id());
                                           delete last;
                                         });
  if (peer.key.has_value()) by_key_[*peer.key] = id;
  entries_.emplace(id, Entry{.process = process,
                             .key = peer.key,
                             .pidfd = std::move(peer.pidfd),
                             .connections = 0,
                             .gone_time = std::nullopt,
                             .is_gone = false});
  return process;
}

void Registry::Leave(ProcessId id) {
  const MutexLock lock(mutex_);
  const auto it = entries_.find(id);
  KVPOOL_CHECK(it != entries_.end());
  Retire(id, it->second);
  entries_.erase(it);
}

void Registry::Retire(ProcessId id, Entry& entry) {
  if (entry.key.has_value()) {
    const auto it = by_key_.find(*entry.key);
    // The key may lead to a later entry: made while nobody held this one and it had not left yet.
    if (it != by_key_.end() && it->second == id) by_key_.erase(it);
  }
  if (entry.pidfd.is_valid()) {
    poller_->Remove(entry.pidfd.get());
    entry.pidfd.Reset();
  }
  entry.gone_time.reset();
}

void Registry::Opened(ProcessId id) {
  const MutexLock lock(mutex_);
  const auto it = entries_.find(id);
  KVPOOL_CHECK(it != entries_.end());  // The caller holds the process.
  ++it->second.connections;
  it->second.gone_time.reset();
}

void Registry::Closed(ProcessId id) {
  const MutexLock lock(mutex_);
  const auto it = entries_.find(id);
  KVPOOL_CHECK(it != entries_.end() && it->second.connections > 0);
  Entry& entry = it->second;
  if (--entry.connections > 0 || entry.pidfd.is_valid() || entry.is_gone) return;
  entry.gone_time = std::chrono::steady_clock::now() + reclaim_delay_;
  poller_->Wake();
}

std::optional<TimePoint> Registry::NextTime() const {
  std::optional<TimePoint> next;
  const MutexLock lock(mutex_);
  for (const auto& [id, entry] : entries_) {
    if (!entry.gone_time.has_value()) continue;
    next = std::min(next.value_or(*entry.gone_time), *entry.gone_time);
  }
  return next;
}

std::vector<std::shared_ptr<const Process>> Registry::TakeGone(
    std::span<const Poller::Event> events) {
  std::vector<std::shared_ptr<const Process>> gone;
  const TimePoint now = std::chrono::steady_clock::now();
  const MutexLock lock(mutex_);
  const auto take = [&](ProcessId id, Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Retire(id, entry);
    entry.is_gone = true;
    // Null where the last holder is letting go of it at this moment: then nobody cares.
    if (std::shared_ptr<const Process> process = entry.process.lock()) {
      process->MarkGone();
      gone.push_back(std::move(process));
    }
  };
  for (const Poller::Event& event : events) {
    const auto it = entries_.find(ProcessId{event.token});
    if (it != entries_.end()) take(it->first, it->second);
  }
  for (auto& [id, entry] : entries_) {
    if (entry.gone_time.has_value() && *entry.gone_time <= now) take(id, entry);
  }
  return gone;
}

void Registry::RunOnce(const ProcessTable::OnGone& on_gone) {
  const std::span<const Poller::Event> events = poller_->Wait(NextTime());
  for (const std::shared_ptr<const Process>& process : TakeGone(events)) on_gone(process->id());
}

class RealProcessTable final : public ProcessTable {
 public:
  RealProcessTable(std::shared_ptr<Registry> registry, bool use_pidfd, OnGone on_gone)
      : registry_(std::move(registry)),
        best_source_(use_pidfd ? PidfdSource::kSocket : PidfdSource::kNone),
        on_gone_(std::move(on_gone)),
        thread_([this](const std::stop_token& stop) { Run(stop); }) {}

  ~RealProcessTable() override {
    thread_.request_stop();
    registry_->Wake();
  }

  RealProcessTable(const RealProcessTable&) = delete;
  RealProcessTable& operator=(const RealProcessTable&) = delete;

  absl::StatusOr<std::shared_ptr<const Process>> FromSocket(int socket) override {
    KVPOOL_ASSIGN_OR_RETURN(PeerIdentity peer, IdentifyPeer(socket, best_source_));
    KVPOOL_ASSIGN_OR_RETURN(std::shared_ptr<const Process> process,
                            registry_->Enter(std::move(peer)));
    if (process->proof() == ReclaimProof::kDelay) weakest_proof_.store(ReclaimProof::kDelay);
    return process;
  }

  void ConnectionOpened(const Process& process) override { registry_->Opened(process.id()); }
  void ConnectionClosed(const Process& process) override { registry_->Closed(process.id()); }
  ReclaimProof weakest_proof() const override { return weakest_proof_.load(); }

 private:
  void Run(const std::stop_token& stop) {
    pthread_setname_np(pthread_self(), "kv-processes");
    while (!stop.stop_requested()) registry_->RunOnce(on_gone_);
  }

  const std::shared_ptr<Registry> registry_;
  const PidfdSource best_source_;
  const OnGone on_gone_;
  std::atomic<ReclaimProof> weakest_proof_{ReclaimProof::kPidfd};
  std::jthread thread_;  // Last: it uses the others.
};

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessTable>> ProcessTable::Create(Duration reclaim_delay,
                                                                   bool use_pidfd, OnGone on_gone) {
  KVPOOL_ASSIGN_OR_RETURN(std::unique_ptr<Poller> poller, Poller::Create());
  return std::make_unique<RealProcessTable>(
      std::make_shared<Registry>(reclaim_delay, std::move(poller)), use_pidfd, std::move(on_gone));
}

}  // namespace kvpool::server
