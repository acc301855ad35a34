#include "server/pool_registry.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <spdlog/spdlog.h>

#include "core/error.h"
#include "core/layout/spec_check.h"
#include "core/status_macros.h"
#include "server/logging.h"

namespace kvpool::server {
namespace {

// How soon a deleted pool is looked at again that somebody still uses.
constexpr Duration kRetiredInterval = std::chrono::milliseconds(20);

// How long after the end of a process a GPU may still write for it: a pidfd tells of the end when
// the driver has let go of the process's channels, and this is for what it had under way.
constexpr Duration kGpuClaimGrace = std::chrono::milliseconds(50);

bool IsGpu(const Device* device) { return device->info().kind == DeviceKind::kCuda; }

// How people know the device.
std::string NameOf(const Device& device) {
  return device.info().uuid.empty() ? device.info().name : device.info().uuid;
}

// RESOURCE_EXHAUSTED where the shards on a device are more than it has free.
absl::Status CheckRoom(const PoolLayout& layout, const std::vector<Device*>& devices) {
  for (Device* const device : std::set<Device*>(devices.begin(), devices.end())) {
    KVPOOL_ASSIGN_OR_RETURN(const DeviceMemory memory, device->QueryMemory());
    const auto shards = static_cast<uint64_t>(std::ranges::count(devices, device));
    const uint64_t needed = layout.shard_bytes * shards;
    if (needed <= memory.free_bytes) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("pool ", layout.spec.name, " needs ", needed, " bytes of ", NameOf(*device),
                     "; ", memory.free_bytes, " are available of ", memory.total_bytes));
  }
  return absl::OkStatus();
}

bool HasMixedFormats(const PoolLayout& layout) {
  const LayerLayout& first = layout.layers.front();
  return std::ranges::any_of(layout.layers, [&](const LayerLayout& layer) {
    if (layer.k.dtype != first.k.dtype || layer.v.has_value() != first.v.has_value()) return true;
    return layer.v.has_value() && layer.v->dtype != first.v->dtype;
  });
}

// Bytes in GiB: one decimal where that is exact, else four digits or more, rounded up, so that it
// is never less than there is.
std::string GibText(uint64_t bytes) {
  double scaled = static_cast<double>(bytes) / (1 << 30);
  int decimals = 1;
  // A byte has its first digit in the tenth place.
  while (decimals < 10 && scaled * std::pow(10, decimals) < 1000) ++decimals;
  scaled = std::ceil(scaled * std::pow(10, decimals)) / std::pow(10, decimals);
  std::string text = absl::StrFormat("%.*f", decimals, scaled);
  while (text.back() == '0' && text[text.size() - 2] != '.') text.pop_back();
  return text;
}

void LogCreated(const PoolLayout& layout) {
  const std::string mixed =
      HasMixedFormats(layout)
          ? absl::StrCat(" high_precision_layers=", layout.spec.high_precision_layers)
          : "";
  spdlog::info("event=pool_created pool={} blocks={} layers={} block_bytes={} total_gib={}{}",
               layout.spec.name, layout.num_blocks, layout.layers.size(), layout.block_bytes,
               GibText(RequiredBytes(layout)), mixed);
}

// Who is in the way of deleting the pool.
std::string InUseText(const Pool& pool) {
  const std::vector<SessionInfo> sessions = pool.ListSessions();
  if (sessions.empty()) return "has sessions";  // Gone meanwhile.
  const SessionInfo& first = sessions.front();
  std::string text = absl::StrCat("has ", sessions.size(), " sessions, the first of them ",
                                  first.id.Short(), " of process ", first.pid);
  if (first.state == SessionState::kClaiming) {
    absl::StrAppend(&text,
                    ", which has ended, but its process may still write: until it is gone, or "
                    "somebody vouches for it (TerminateSession with release_claims)");
  }
  return text;
}

}  // namespace

uint64_t RequiredBytes(const PoolLayout& layout) {
  return layout.shard_bytes * layout.num_shards();
}

uint64_t PoolRegistry::MicrosecondsSince1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

PoolRegistry::PoolRegistry(Options options, DeviceTable& devices, PoolObserver& observer)
    : options_(std::move(options)), devices_(devices), observer_(observer) {}

absl::StatusOr<PoolLayout> PoolRegistry::Plan(const PoolSpec& spec) const {
  KVPOOL_ASSIGN_OR_RETURN(Planned planned, PlanOnDevices(spec));
  return std::move(planned.layout);
}

absl::StatusOr<PoolRegistry::Planned> PoolRegistry::PlanOnDevices(PoolSpec spec) const {
  if (spec.fill_on_alloc == Fill::kUnspecified && options_.poison) {
    spec.fill_on_alloc = Fill::kPoison;
  }
  // What is wrong in itself is told without looking for devices.
  KVPOOL_ASSIGN_OR_RETURN(spec, CheckSpec(spec));
  KVPOOL_ASSIGN_OR_RETURN(std::vector<Device*> devices, devices_.Find(spec));
  std::vector<DeviceMemory> memory;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (IsGpu(devices[i])) spec.devices[i] = absl::StrCat("cuda:", devices[i]->info().uuid);
    if (!spec.memory_utilization.has_value()) continue;
    KVPOOL_ASSIGN_OR_RETURN(const DeviceMemory has, devices[i]->QueryMemory());
    memory.push_back(has);
  }
  KVPOOL_ASSIGN_OR_RETURN(PoolLayout layout, PlanPool(spec, memory));
  return Planned{.layout = std::move(layout), .devices = std::move(devices)};
}

absl::StatusOr<ServedPool> PoolRegistry::Create(const PoolSpec& spec) {
  absl::StatusOr<ServedPool> served = PlanAndAllocate(spec);
  if (served.ok()) {
    LogCreated(served->pool->layout());
  } else {
    spdlog::warn("event=pool_create_failed pool={} message={}", LogText(spec.name),
                 LogText(served.status().message()));
  }
  return served;
}

absl::StatusOr<ServedPool> PoolRegistry::PlanAndAllocate(const PoolSpec& spec) {
  KVPOOL_ASSIGN_OR_RETURN(const Planned planned, PlanOnDevices(spec));
  const std::string& name = planned.layout.spec.name;
  {
    const MutexLock lock(mutex_);
    if (!pools_.try_emplace(name).second) {
      return absl::AlreadyExistsError(absl::StrCat("there is a pool ", name));
    }
  }
  return Enter(planned.layout, Allocate(planned));
}

absl::StatusOr<ServedPool> PoolRegistry::Enter(const PoolLayout& layout,
                                               absl::StatusOr<std::shared_ptr<Pool>> pool) {
  const MutexLock lock(mutex_);
  const auto it = pools_.find(layout.spec.name);
  if (!pool.ok()) {
    pools_.erase(it);
    return pool.status();
  }
  it->second.pool = *std::move(pool);
  for (uint32_t shard = 0; shard < layout.num_shards(); ++shard) {
    it->second.region_ids.push_back(next_region_id_++);
  }
  return it->second;
}

absl::StatusOr<std::shared_ptr<Pool>> PoolRegistry::Allocate(const Planned& planned) {
  // Before the first shard is allocated, so that shards that cannot all fit take nothing.
  KVPOOL_RETURN_IF_ERROR(CheckRoom(planned.layout, planned.devices));
  const bool is_on_gpus = std::ranges::any_of(planned.devices, IsGpu);
  const PoolOptions options{.layout = planned.layout,
                            .limits = options_.limits,
                            .trace = options_.trace,
                            .claim_grace = is_on_gpus ? kGpuClaimGrace : Duration::zero(),
                            .before_first_generation = options_.before_first_generation != nullptr
                                                           ? options_.before_first_generation()
                                                           : 0};
  return Pool::Create(options, planned.devices, options_.clock, observer_);
}

absl::Status PoolRegistry::Delete(absl::string_view name) {
  std::vector<ServedPool> unused;
  {
    const MutexLock lock(mutex_);
    const auto it = pools_.find(name);
    if (it == pools_.end() || it->second.pool == nullptr) {
      return absl::NotFoundError(absl::StrCat("there is no pool '", name, "'"));
    }
    if (!it->second.pool->is_idle()) {
      return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kInUse},
                       absl::StrCat("pool ", name, " ", InUseText(*it->second.pool)));
    }
    // A call that found the pool before may yet open a session in it: it is kept going until
    // nobody has it.
    retired_.push_back(std::move(it->second));
    pools_.erase(it);
    unused = TakeUnused();
  }
  spdlog::info("event=pool_deleted pool={}", std::string(name));
  Discard(std::move(unused));
  return absl::OkStatus();
}

void PoolRegistry::Discard(std::vector<ServedPool> pools) const {
  if (!pools.empty() && options_.discard != nullptr) options_.discard(std::move(pools));
}

std::vector<ServedPool> PoolRegistry::TakeUnused() {
  // Not std::ranges::partition: clang 14 cannot use the subrange of libstdc++ 12.
  const auto unused =
      std::partition(retired_.begin(), retired_.end(),
                     [](const ServedPool& served) { return served.pool.use_count() > 1; });
  std::vector<ServedPool> taken(std::make_move_iterator(unused),
                                std::make_move_iterator(retired_.end()));
  retired_.erase(unused, retired_.end());
  return taken;
}

absl::StatusOr<ServedPool> PoolRegistry::Find(absl::string_view name) const {
  const MutexLock lock(mutex_);
  const auto it = pools_.find(name);
  if (it == pools_.end() || it->second.pool == nullptr) {
    return absl::NotFoundError(absl::StrCat("there is no pool '", name, "'"));
  }
  return it->second;
}

std::vector<ServedPool> PoolRegistry::List() const {
  std::vector<ServedPool> listed;
  const MutexLock lock(mutex_);
  for (const auto& [name, served] : pools_) {
    if (served.pool != nullptr) listed.push_back(served);
  }
  return listed;
}

std::vector<ServedPool> PoolRegistry::ListAll() const {
  std::vector<ServedPool> all = List();
  const MutexLock lock(mutex_);
  all.insert(all.end(), retired_.begin(), retired_.end());
  return all;
}

absl::StatusOr<PoolRegistry::FoundRegion> PoolRegistry::FindRegion(uint64_t region_id) const {
  for (ServedPool& served : ListAll()) {
    const auto it = std::ranges::find(served.region_ids, region_id);
    if (it == served.region_ids.end()) continue;
    return FoundRegion{.pool = std::move(served.pool),
                       .shard = static_cast<uint32_t>(it - served.region_ids.begin())};
  }
  return absl::NotFoundError(absl::StrCat("there is no region ", region_id));
}

void PoolRegistry::ProcessGone(ProcessId process) {
  for (const ServedPool& served : ListAll()) served.pool->ProcessGone(process);
}

std::optional<TimePoint> PoolRegistry::Advance() {
  std::optional<TimePoint> next;
  const auto note = [&next](TimePoint time) { next = std::min(next.value_or(time), time); };
  for (const ServedPool& served : ListAll()) {
    if (const std::optional<TimePoint> time = served.pool->Advance()) note(*time);
  }
  std::vector<ServedPool> unused;
  {
    const MutexLock lock(mutex_);
    unused = TakeUnused();
    if (!retired_.empty()) note(options_.clock() + kRetiredInterval);
  }
  Discard(std::move(unused));
  return next;
}

}  // namespace kvpool::server
