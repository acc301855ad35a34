#include "server/fd_service.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include <spdlog/spdlog.h>

#include "core/check.h"
#include "core/error.h"
#include "core/status_macros.h"
#include "server/fd_packet.h"
#include "server/logging.h"
#include "server/rpc/status_mapping.h"

namespace kvpool::server {
namespace {

// A poller's token is a listener's index, or this bit and a connection.
constexpr uint64_t kConnectionBit = uint64_t{1} << 63;

constexpr Duration kLogInterval = std::chrono::seconds(1);

}  // namespace

absl::StatusOr<std::unique_ptr<FdService>> FdService::Start(Options options,
                                                            std::vector<const Listener*> listeners,
                                                            ProcessTable& processes,
                                                            SessionHub& sessions,
                                                            PoolRegistry& pools) {
  KVPOOL_ASSIGN_OR_RETURN(std::unique_ptr<Poller> poller, Poller::Create());
  return absl::WrapUnique(
      new FdService(options, std::move(listeners), processes, sessions, pools, std::move(poller)));
}

FdService::FdService(Options options, std::vector<const Listener*> listeners,
                     ProcessTable& processes, SessionHub& sessions, PoolRegistry& pools,
                     std::unique_ptr<Poller> poller)
    : options_(options),
      listeners_(std::move(listeners)),
      processes_(processes),
      sessions_(sessions),
      pools_(pools),
      poller_(std::move(poller)),
      counts_(listeners_.size(), 0) {
  for (size_t i = 0; i < listeners_.size(); ++i) {
    const int fd = listeners_[i]->region_fd();
    acceptors_.push_back(fd < 0 ? nullptr : std::make_unique<Acceptor>(*poller_, fd, i));
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

FdService::~FdService() {
  thread_.request_stop();
  poller_->Wake();
  thread_.join();
  while (!by_deadline_.empty()) End(by_deadline_.front());
}

void FdService::Run(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "kv-fds");
  while (!stop.stop_requested()) RunOnce();
}

void FdService::RunOnce() {
  for (const Poller::Event& event : poller_->Wait(NextTime())) {
    if ((event.token & kConnectionBit) == 0) {
      Accept(event.token);
      continue;
    }
    const uint64_t id = event.token & ~kConnectionBit;
    const auto it = connections_.find(id);
    if (it == connections_.end()) continue;  // It made room for one accepted a moment ago.
    if (Serve(it->second)) {
      Touch(id, it->second);
    } else {
      End(id);
    }
  }
  for (const std::unique_ptr<Acceptor>& acceptor : acceptors_) {
    if (acceptor != nullptr) acceptor->Resume();
  }
  EndSilent();
}

std::optional<TimePoint> FdService::NextTime() const {
  std::optional<TimePoint> next;
  if (!by_deadline_.empty()) next = connections_.at(by_deadline_.front()).deadline;
  for (const std::unique_ptr<Acceptor>& acceptor : acceptors_) {
    if (acceptor == nullptr || !acceptor->resume_time().has_value()) continue;
    next = std::min(next.value_or(*acceptor->resume_time()), *acceptor->resume_time());
  }
  return next;
}

void FdService::Accept(size_t listener) {
  for (UniqueFd& fd : acceptors_[listener]->Take()) Admit(listener, std::move(fd));
}

void FdService::Admit(size_t listener, UniqueFd fd) {
  const Listener& source = *listeners_[listener];
  absl::StatusOr<std::shared_ptr<const Process>> process = processes_.FromSocket(fd.get());
  if (!process.ok()) {
    spdlog::warn("event=fd_connection_refused listener={} message={}", LogText(source.address()),
                 LogText(process.status().message()));
    return;
  }
  if (counts_[listener] >= options_.max_connections) MakeRoom(listener, **process);
  const uint64_t id = next_connection_++;
  if (!poller_->Add(fd.get(), EPOLLIN, kConnectionBit | id).ok()) return;
  const std::string& tenant = source.spec().tenant;
  processes_.ConnectionOpened(**process);
  ++counts_[listener];
  connections_.emplace(
      id, Connection{.fd = std::move(fd),
                     .listener = listener,
                     .process = *process,
                     .tenant = tenant.empty() ? absl::StrCat("uid-", (*process)->uid()) : tenant,
                     .deadline = std::chrono::steady_clock::now() + options_.max_silence,
                     .place = by_deadline_.insert(by_deadline_.end(), id)});
}

FdService::Caller FdService::CallerOf(const Process& process) {
  return {process.uid(), process.pid(), process.pid() == 0 ? process.id() : ProcessId{}};
}

void FdService::MakeRoom(size_t listener, const Process& newcomer) {
  absl::flat_hash_map<Caller, size_t> counts = {{CallerOf(newcomer), 1}};
  for (const auto& [id, connection] : connections_) {
    if (connection.listener == listener) ++counts[CallerOf(*connection.process)];
  }
  uint64_t least_needed = 0;
  size_t most = 0;
  for (const uint64_t id : by_deadline_) {
    const Connection& connection = connections_.at(id);
    if (connection.listener != listener) continue;
    const size_t count = counts.at(CallerOf(*connection.process));
    if (count > most) least_needed = id;
    most = std::max(most, count);
  }
  ++ended_for_room_;
  // A flood is one line a second.
  if (const TimePoint now = std::chrono::steady_clock::now(); now >= next_log_) {
    next_log_ = now + kLogInterval;
    const Process& process = *connections_.at(least_needed).process;
    spdlog::warn("event=fd_connections_ended reason=too_many listener={} pid={} uid={} count={}",
                 LogText(listeners_[listener]->address()), process.pid(), process.uid(),
                 std::exchange(ended_for_room_, 0));
  }
  End(least_needed);
}

void FdService::Touch(uint64_t id, Connection& connection) {
  connection.deadline = std::chrono::steady_clock::now() + options_.max_silence;
  KVPOOL_CHECK(*connection.place == id);
  by_deadline_.splice(by_deadline_.end(), by_deadline_, connection.place);
}

void FdService::End(uint64_t id) {
  const auto it = connections_.find(id);
  KVPOOL_CHECK(it != connections_.end());
  Connection& connection = it->second;
  poller_->Remove(connection.fd.get());
  processes_.ConnectionClosed(*connection.process);
  --counts_[connection.listener];
  by_deadline_.erase(connection.place);
  connections_.erase(it);
}

void FdService::EndSilent() {
  const TimePoint now = std::chrono::steady_clock::now();
  while (!by_deadline_.empty()) {
    const uint64_t id = by_deadline_.front();
    if (connections_.at(id).deadline > now) return;
    End(id);
  }
}

bool FdService::Serve(Connection& connection) {
  v1::RegionFdRequest request;
  switch (ReceiveRequest(connection.fd.get(), request)) {
    case PacketState::kEnd:
      return false;
    case PacketState::kNothing:
      return true;
    case PacketState::kRequest:
      break;
  }
  v1::RegionFdResponse response;
  const absl::StatusOr<Grant> grant = GrantRegion(connection, request);
  if (!grant.ok()) {
    internal::Status error = ToWireStatus(grant.status());
    response.set_code(error.code());
    response.set_message(std::move(*error.mutable_message()));
    response.mutable_details()->Swap(error.mutable_details());
    return SendResponse(connection.fd.get(), response, std::nullopt);
  }
  response.set_size_bytes(grant->size_bytes);
  spdlog::debug("event=region_given region={} pool={} pid={}", request.region_id(),
                grant->pool->layout().spec.name, connection.process->pid());
  return SendResponse(connection.fd.get(), response, grant->fd);
}

absl::StatusOr<FdService::Grant> FdService::GrantRegion(const Connection& connection,
                                                        const v1::RegionFdRequest& request) {
  KVPOOL_ASSIGN_OR_RETURN(const SessionId session, SessionId::Parse(request.session_id()));
  const std::shared_ptr<Pool> pool = sessions_.FindPool(session);
  if (pool == nullptr) {
    return MakeError(absl::StatusCode::kNotFound, {.reason = Reason::kSessionUnknown},
                     absl::StrCat("there is no session ", session.Short()));
  }
  const absl::StatusOr<PoolRegistry::FoundRegion> region = pools_.FindRegion(request.region_id());
  if (!region.ok() || region->pool != pool) {
    return absl::NotFoundError(
        absl::StrCat("the session's pool has no region ", request.region_id()));
  }
  const Region& memory = *pool->memory().regions()[region->shard];
  if (memory.shared_fd() < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("region ", request.region_id(), " is not of host memory"));
  }
  // The connection keeps the process known meanwhile. Checks the tenant, too.
  KVPOOL_RETURN_IF_ERROR(pool->AddProcess({.session = session, .tenant = connection.tenant},
                                          connection.process->id()));
  sessions_.AddProcess(session, connection.process);
  if (connection.process->is_gone()) {
    pool->ProcessGone(connection.process->id());
    return absl::NotFoundError("the process that asks is gone");
  }
  return Grant{.pool = pool, .fd = memory.shared_fd(), .size_bytes = memory.size_bytes()};
}

}  // namespace kvpool::server
