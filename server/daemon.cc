#include "server/daemon.h"

#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include <grpcpp/server_posix.h>
#include <spdlog/spdlog.h>

#include "core/check.h"
#include "core/device/host_device.h"
#include "core/error.h"
#include "core/layout/spec_check.h"
#include "core/status_macros.h"
#include "server/grpc_server.h"
#include "server/ipc_self_test.h"
#include "server/limits.h"
#include "server/logging.h"
#include "server/peer_identity.h"

namespace kvpool::server {
namespace {

using std::chrono::duration_cast;
using std::chrono::steady_clock;

// How soon a pool that found no memory is tried again.
constexpr Duration kMemoryRetry = std::chrono::seconds(1);
// How long calls that are left have, once every session is over, before they are cancelled.
constexpr std::chrono::milliseconds kShutdownGrace{500};
// A driver takes seconds to come up in another process, of a node with many GPUs.
constexpr Duration kIpcTestDeadline = std::chrono::seconds(60);
// Byte operations are bound by memory's speed: a few threads reach it.
constexpr size_t kMaxWorkers = 8;

TimePoint Now() { return steady_clock::now(); }

std::string RandomEpoch() {
  std::array<char, 16> bytes{};
  KVPOOL_CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

size_t WorkerCount() {
  return std::clamp<size_t>(std::thread::hardware_concurrency(), 2, kMaxWorkers);
}

DeviceTable::SelfTest MakeSelfTest(const std::string& program) {
  if (program.empty()) return nullptr;
  return [program](Device& gpu) { return TestIpc(gpu, program, kIpcTestDeadline); };
}

bool HasPeerPidfd() {
  std::array<int, 2> pair{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) return false;
  const UniqueFd first(pair[0]);
  const UniqueFd second(pair[1]);
  const absl::StatusOr<PeerIdentity> peer = IdentifyPeer(first.get(), PidfdSource::kSocket);
  return peer.ok() && peer->pidfd.is_valid();
}

std::vector<const Listener*> Pointers(const std::vector<std::unique_ptr<Listener>>& listeners) {
  std::vector<const Listener*> pointers;
  pointers.reserve(listeners.size());
  for (const std::unique_ptr<Listener>& listener : listeners) pointers.push_back(listener.get());
  return pointers;
}

int64_t Milliseconds(Duration duration) {
  return duration_cast<std::chrono::milliseconds>(duration).count();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(DaemonOptions options) {
  auto daemon = absl::WrapUnique(new Daemon(std::move(options)));
  KVPOOL_RETURN_IF_ERROR(daemon->PlanFds());
  KVPOOL_RETURN_IF_ERROR(daemon->CheckPools());
  KVPOOL_RETURN_IF_ERROR(daemon->Bind());
  KVPOOL_RETURN_IF_ERROR(daemon->Serve());
  return daemon;
}

Daemon::Daemon(DaemonOptions options)
    : options_(std::move(options)),
      epoch_(RandomEpoch()),
      hub_([this] { OnSessionsChanged(); }),
      workers_("kv-worker", WorkerCount()),
      long_calls_(workers_, WorkerCount()),
      creation_("kv-creation", 1),
      gpu_work_("kv-gpus", 1),
      host_(options_.host != nullptr ? options_.host : std::make_shared<HostDevice>(workers_)),
      devices_(*host_, options_.gpus != nullptr ? options_.gpus : MakeGpus(),
               MakeSelfTest(options_.probe_program)),
      registry_({.limits = LedgerLimits{},
                 .trace = options_.trace,
                 .poison = options_.poison,
                 .clock = [this] { return clock_.Now(); },
                 .before_first_generation = &PoolRegistry::MicrosecondsSince1970,
                 .discard = [this](std::vector<ServedPool> pools) { Discard(std::move(pools)); }},
                devices_, hub_) {}

Daemon::~Daemon() { Shutdown(); }

absl::Status Daemon::PlanFds() {
  size_t region_count = 0;
  for (const PoolSpec& pool : options_.config.pools) {
    region_count += std::max<size_t>(1, pool.devices.size());
  }
  KVPOOL_ASSIGN_OR_RETURN(fd_budget_,
                          ShareFds(RaiseFdLimit(), options_.config.listeners.size(), region_count));
  return absl::OkStatus();
}

absl::Status Daemon::CheckPools() const {
  uint64_t needed = 0;
  for (size_t i = 0; i < options_.config.pools.size(); ++i) {
    if (IsCuda(options_.config.pools[i])) continue;
    const absl::StatusOr<PoolLayout> layout = registry_.Plan(options_.config.pools[i]);
    if (!layout.ok()) {
      return {layout.status().code(), absl::StrCat("pools[", i, "]: ", layout.status().message())};
    }
    const uint64_t bytes = RequiredBytes(*layout);
    needed = needed > UINT64_MAX - bytes ? UINT64_MAX : needed + bytes;
  }
  if (needed == 0) return absl::OkStatus();
  KVPOOL_ASSIGN_OR_RETURN(const DeviceMemory memory, host_->QueryMemory());
  if (needed <= memory.total_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the config's pools need ", needed, " bytes of host memory, and there are ",
                   memory.total_bytes, " in all, ", memory.free_bytes, " of them available"));
}

absl::Status Daemon::Bind() {
  if (!options_.config.private_directory.empty()) {
    KVPOOL_RETURN_IF_ERROR(MakePrivateDirectory(options_.config.private_directory));
  }
  for (const ListenerSpec& spec : options_.config.listeners) {
    KVPOOL_ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener, Listener::Bind(spec));
    listeners_.push_back(std::move(listener));
  }
  return absl::OkStatus();
}

void Daemon::Discard(std::vector<ServedPool> pools) {
  for (ServedPool& served : pools) {
    WorkerPool& place = IsCuda(served.pool->layout().spec) ? gpu_work_ : creation_;
    place.Post([pool = std::move(served)]() mutable { pool = {}; });
  }
}

std::vector<std::string> Daemon::FindWarnings() const {
  std::vector<std::string> warnings;
  if (fd_budget_.max_connections < kMaxConnections) {
    warnings.push_back(absl::StrCat("RLIMIT_NOFILE leaves each listener ",
                                    fd_budget_.max_connections, " connections instead of ",
                                    kMaxConnections));
  }
  if (!HasPeerPidfd()) {
    warnings.emplace_back(
        "this kernel has no SO_PEERPIDFD (Linux 6.5): the end of some processes is known only by a "
        "delay");
  }
  return warnings;
}

std::vector<std::string> Daemon::Warnings() const {
  std::vector<std::string> warnings = start_warnings_;
  std::ranges::move(devices_.warnings(), std::back_inserter(warnings));
  const MutexLock lock(mutex_);
  if (!waiting_for_.empty()) warnings.push_back(waiting_for_);
  return warnings;
}

ServiceContext Daemon::MakeContext() {
  start_warnings_ = FindWarnings();
  for (const std::string& warning : start_warnings_) {
    spdlog::warn("event=warning message={}", LogText(warning));
  }
  return {
      .pools = registry_,
      .sessions = hub_,
      .watches = watches_,
      .peers = peers_,
      .processes = *processes_,
      .workers = long_calls_,
      .creation = creation_,
      .gpus = gpu_work_,
      .call_memory = call_memory_,
      .limits = LedgerLimits{},
      .max_message_bytes = kMaxMessageBytes,
      .version = options_.version,
      .daemon_epoch = epoch_,
      .start_time = start_time_,
      .clock = [this] { return clock_.Now(); },
      .trace = options_.trace,
      .warnings = [this] { return Warnings(); },
      .devices = devices_,
      .drain = [this](std::optional<Duration> deadline,
                      absl::AnyInvocable<void()> done) { RequestStop(deadline, std::move(done)); },
      .starting = starting_,
      .draining = draining_};
}

absl::Status Daemon::Serve() {
  KVPOOL_ASSIGN_OR_RETURN(
      processes_, ProcessTable::Create(options_.reclaim_delay, /*use_pidfd=*/true,
                                       [this](ProcessId process) { OnProcessGone(process); }));
  services_ = std::make_unique<Services>(MakeContext());
  KVPOOL_ASSIGN_OR_RETURN(server_, StartGrpcServer(*services_, options_.keepalive));
  ticker_.Start(
      [this] {
        watches_.Tick(Now());
        return Advance();
      },
      [this] { return hub_.size() > 0; });

  const std::vector<const Listener*> listeners = Pointers(listeners_);
  KVPOOL_ASSIGN_OR_RETURN(fds_, FdService::Start({.max_connections = fd_budget_.max_fd_connections,
                                                  .max_silence = kMaxFdSilence},
                                                 listeners, *processes_, hub_, registry_));
  KVPOOL_ASSIGN_OR_RETURN(
      connections_,
      ConnectionWatch::Create(
          {.max_connections = fd_budget_.max_connections,
           .max_process_connections = fd_budget_.max_process_connections,
           .adopt = [this](int fd) { grpc::AddInsecureChannelFromFd(server_.get(), fd); }},
          listeners, *processes_, peers_));
  {
    const MutexLock lock(mutex_);
    watch_ = connections_.get();
  }
  connections_->Begin();
  for (const std::unique_ptr<Listener>& listener : listeners_) {
    spdlog::info("event=listening address={} role={} tenant={}", LogText(listener->address()),
                 v1::Role_Name(listener->spec().role), LogText(listener->spec().tenant));
  }
  startup_ = std::jthread([this](const std::stop_token& stop) {
    pthread_setname_np(pthread_self(), "kv-startup");
    CreatePools(stop);
  });
  return absl::OkStatus();
}

void Daemon::CreatePools(const std::stop_token& stop) {
  const TimePoint deadline = Now() + options_.memory_wait;
  for (const PoolSpec& spec : options_.config.pools) {
    const absl::Status status = CreatePool(spec, deadline, stop);
    if (status.ok()) continue;
    const MutexLock lock(mutex_);
    if (drain_end_.has_value()) return;  // Told to end while it waited for memory: not a failure.
    start_failure_ = status;
    changed_.notify_all();
    return;
  }
  // The mutex keeps it apart from the drain, which health is to show from then on.
  const MutexLock lock(mutex_);
  starting_ = false;
  if (!drain_end_.has_value()) SetServing(*server_, true);
  spdlog::info("event=serving pools={} epoch={} start_ms={}", options_.config.pools.size(), epoch_,
               Milliseconds(std::chrono::system_clock::now() - start_time_));
  changed_.notify_all();
}

absl::Status Daemon::CreatePool(const PoolSpec& spec, TimePoint deadline,
                                const std::stop_token& stop) {
  while (true) {
    absl::Status status = registry_.Create(spec).status();
    const bool may_pass = absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
    const MutexLock lock(mutex_);
    waiting_for_.clear();
    if (!may_pass || Now() >= deadline) return status;
    waiting_for_ =
        absl::StrCat("the start waits for pool ", spec.name, ": ", std::string(status.message()));
    const TimePoint retry = std::min(deadline, Now() + kMemoryRetry);
    while (!drain_end_.has_value() && !stop.stop_requested()) {
      if (changed_.wait_until(mutex_, retry) == std::cv_status::timeout) break;
    }
    if (drain_end_.has_value() || stop.stop_requested()) return status;
  }
}

std::optional<TimePoint> Daemon::Advance() {
  devices_.LogFailures();
  const std::optional<TimePoint> next = registry_.Advance();
  if (!next.has_value()) return std::nullopt;
  return clock_.ToSteady(*next);
}

void Daemon::OnProcessGone(ProcessId process) {
  registry_.ProcessGone(process);
  {
    const MutexLock lock(mutex_);
    if (watch_ != nullptr) watch_->EndConnections(process);
  }
  ticker_.Wake();
}

void Daemon::OnSessionsChanged() {
  ticker_.Wake();
  if (!draining_) return;
  const MutexLock lock(mutex_);  // Else it could come between Drain's look and its wait.
  changed_.notify_all();
}

void Daemon::RequestStop(std::optional<Duration> deadline, absl::AnyInvocable<void()> done) {
  const TimePoint end = Now() + deadline.value_or(options_.drain_deadline);
  {
    const MutexLock lock(mutex_);
    drain_end_ = std::min(end, drain_end_.value_or(end));
    changed_.notify_all();
    if (!is_drained_) {
      on_drained_.push_back(std::move(done));
      return;
    }
  }
  done();
}

void Daemon::RemoveSockets() {
  for (const std::unique_ptr<Listener>& listener : listeners_) listener->RemoveFiles();
}

Daemon::Outcome Daemon::Run() {
  bool is_starting = false;
  absl::Status failure;
  {
    const MutexLock lock(mutex_);
    while (!drain_end_.has_value() && !start_failure_.has_value()) changed_.wait(mutex_);
    if (start_failure_.has_value()) {
      failure = *start_failure_;
    } else {
      is_starting = starting_;
    }
  }
  // Nobody can have a session yet where pools are still being made, which may take minutes.
  if (!is_starting && failure.ok()) Drain();
  EndDrain();
  connections_->StopAccepting();
  fds_.reset();
  RemoveSockets();
  return {.status = failure, .has_hung_start = is_starting};
}

void Daemon::Drain() {
  draining_ = true;
  SetServing(*server_, false);
  TimePoint told_end{};
  while (true) {
    TimePoint end{};
    {
      const MutexLock lock(mutex_);
      end = *drain_end_;
      if (end == told_end) {
        if (hub_.live_count() == 0) break;
        if (changed_.wait_until(mutex_, end) == std::cv_status::timeout) break;
        continue;
      }
    }
    TellOfDrain(end);
    told_end = end;
  }
  EndDrain();
  const absl::Status stops =
      MakeError(absl::StatusCode::kUnavailable, {.reason = Reason::kDraining}, "the daemon stops");
  hub_.EndAll(stops);
  watches_.EndAll(stops);
}

// Tells the sessions when it ends; again, where a later request has brought that forward.
void Daemon::TellOfDrain(TimePoint end) {
  const int64_t left_ms = std::max<int64_t>(Milliseconds(end - Now()), 0);
  spdlog::info("event=draining sessions={} deadline_ms={}", hub_.live_count(), left_ms);
  v1::Notice notice;
  notice.set_kind(v1::Notice::KIND_DRAINING);
  notice.set_message("the daemon stops when its sessions are closed, or at the deadline");
  notice.mutable_deadline()->set_seconds(left_ms / 1000);
  notice.mutable_deadline()->set_nanos(static_cast<int32_t>(left_ms % 1000 * 1'000'000));
  hub_.SendAll(notice);
}

// Answers who asked for it, and at once who asks later.
void Daemon::EndDrain() {
  std::vector<absl::AnyInvocable<void()>> on_drained;
  {
    const MutexLock lock(mutex_);
    is_drained_ = true;
    on_drained = std::exchange(on_drained_, {});
  }
  for (absl::AnyInvocable<void()>& done : on_drained) done();
}

void Daemon::Shutdown() {
  if (startup_.joinable()) {
    startup_.request_stop();
    {
      const MutexLock lock(mutex_);
      changed_.notify_all();
    }
    startup_.join();
  }
  EndDrain();
  if (connections_ != nullptr) connections_->StopAccepting();
  fds_.reset();
  // Handlers look their peers up, and use all else, until they are over.
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  {
    const MutexLock lock(mutex_);
    watch_ = nullptr;
  }
  connections_.reset();
  server_.reset();
  services_.reset();
  ticker_.Stop();
  processes_.reset();
  // Byte operations of calls that were cancelled may still run, and tell the hub.
  gpu_work_.Finish();
  creation_.Finish();
  workers_.Finish();
}

}  // namespace kvpool::server
