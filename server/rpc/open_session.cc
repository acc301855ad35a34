#include "server/rpc/open_session.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <spdlog/spdlog.h>

#include "core/check.h"
#include "core/error.h"
#include "core/status_macros.h"
#include "proto/convert/layout_convert.h"
#include "server/limits.h"
#include "server/logging.h"
#include "server/rpc/convert.h"
#include "server/rpc/inspect_convert.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {
namespace {

SessionId RandomSessionId() {
  SessionId id;
  // Up to 256 bytes come whole and uninterrupted once the kernel's pool is initialised, for which
  // the call waits.
  const ssize_t size = getrandom(id.bytes.data(), id.bytes.size(), 0);
  KVPOOL_CHECK(size == static_cast<ssize_t>(id.bytes.size()));
  return id;
}

// What a worker that expects another layout compares its own with.
std::string GeometryText(const PoolLayout& layout) {
  const PoolSpec& spec = layout.spec;
  return absl::StrCat(
      "block_size ", spec.block_size.value_or(0), ", num_layers ", spec.num_layers,
      ", num_kv_heads ", spec.num_kv_heads, ", head_dim ", spec.head_dim, ", v_head_dim ",
      spec.v_head_dim, ", dtype '", spec.dtype, "', ", spec.layers.size(),
      " layers of their own, high_precision_layers ", spec.high_precision_layers,
      ", raw_token_bytes ", spec.raw_token_bytes,
      spec.memory_order == MemoryOrder::kBlockMajor ? ", block-major" : ", layer-major");
}

// Whether the worker can open the handles of a pool on GPUs. Two processes with one pid, each in
// its own container, cannot share a GPU's memory: the driver takes them for one process.
absl::Status CheckGpus(const Pool& pool, const v1::OpenSessionRequest& request) {
  const Memory& memory = pool.memory();
  if (memory.device(0).info().kind != DeviceKind::kCuda) return absl::OkStatus();
  const std::string& name = pool.layout().spec.name;
  if (request.pid() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pid is 0; for pool '", name, "', which is on GPUs, it is what getpid() returns"));
  }
  if (request.pid() == getpid()) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, {.reason = Reason::kPidCollision},
        absl::StrCat("CUDA IPC cannot work: this worker and the daemon both have pid ", getpid(),
                     ", each inside its container; start one of them under another pid"));
  }
  if (request.device_uuids().empty()) return absl::OkStatus();
  std::vector<std::string> of_pool;
  for (uint32_t shard = 0; shard < pool.layout().num_shards(); ++shard) {
    of_pool.push_back(memory.device(shard).info().uuid);
  }
  if (std::ranges::find_first_of(of_pool, request.device_uuids()) != of_pool.end()) {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDevice},
                   absl::StrCat("pool '", name, "' is on ", absl::StrJoin(of_pool, ", "),
                                ", and this worker sees ",
                                absl::StrJoin(request.device_uuids(), ", "), " alone"));
}

absl::Status CheckPool(const PoolLayout& layout, const Peer& peer,
                       const v1::OpenSessionRequest& request) {
  const std::vector<std::string>& tenants = layout.spec.tenants;
  if (!tenants.empty() && peer.role != v1::ROLE_OPERATOR &&
      std::ranges::find(tenants, peer.tenant) == tenants.end()) {
    return absl::PermissionDeniedError(
        absl::StrCat("pool '", layout.spec.name, "' is not for tenant '", peer.tenant, "'"));
  }
  const std::string& expected = request.expected_fingerprint();
  if (!expected.empty() && expected != layout.fingerprint) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, {.reason = Reason::kLayoutMismatch},
        absl::StrCat("pool '", layout.spec.name, "' has the fingerprint ", layout.fingerprint,
                     ", not the expected ", expected, "; it has ", GeometryText(layout)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Duration> GetTtl(const LedgerLimits& limits, const v1::OpenSessionRequest& request) {
  if (!request.has_ttl()) return std::clamp(kDefaultTtl, limits.min_ttl, limits.max_ttl);
  KVPOOL_ASSIGN_OR_RETURN(const Duration ttl, ToDuration("ttl", request.ttl()));
  if (ttl < limits.min_ttl || ttl > limits.max_ttl) {
    return absl::InvalidArgumentError(absl::StrCat("ttl is ", DurationText(ttl), "; it is ",
                                                   DurationText(limits.min_ttl), " to ",
                                                   DurationText(limits.max_ttl)));
  }
  return ttl;
}

// Checks what does not depend on a pool, and makes the call. It points into its arguments.
absl::StatusOr<OpenSessionCall> MakeCall(const ServiceContext& context, const Peer& peer,
                                         const v1::OpenSessionRequest& request) {
  KVPOOL_RETURN_IF_ERROR(CheckPrintable("client_name", request.client_name(), kMaxClientNameBytes));
  if (request.model_id().size() > kMaxModelIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat("model_id has ", request.model_id().size(),
                                                   " bytes; it has at most ", kMaxModelIdBytes));
  }
  if (request.pid() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("pid is ", request.pid(), "; it is what getpid() returns"));
  }
  KVPOOL_ASSIGN_OR_RETURN(const Duration ttl, GetTtl(context.limits, request));
  std::optional<SessionId> join;
  if (!request.join_session_id().empty()) {
    const absl::StatusOr<SessionId> joined = SessionId::Parse(request.join_session_id());
    if (!joined.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("join_session_id has ", request.join_session_id().size(),
                       " characters; it is 32 lower-case hex digits"));
    }
    join = *joined;
  }
  return OpenSessionCall{.id = RandomSessionId(),
                         .tenant = peer.tenant,
                         .client_name = request.client_name(),
                         .model_id = request.model_id(),
                         .pid = peer.process->pid(),
                         .uid = peer.process->uid(),
                         .process = peer.process->id(),
                         .ttl = ttl,
                         .guaranteed_blocks = request.guaranteed_blocks(),
                         .join = join};
}

void AddRegions(const ServedPool& served, v1::OpenSessionResponse& response) {
  const Memory& memory = served.pool->memory();
  const auto regions = memory.regions();
  KVPOOL_CHECK(regions.size() == served.region_ids.size());
  for (size_t shard = 0; shard < regions.size(); ++shard) {
    v1::MemoryRegion& region = *response.add_regions();
    region.set_shard(static_cast<uint32_t>(shard));
    region.set_region_id(served.region_ids[shard]);
    region.set_size_bytes(regions[shard]->size_bytes());
    *region.mutable_device() = ToMessage(memory.device(static_cast<uint32_t>(shard)).info());
    region.set_exporter_pid(getpid());
    const std::span<const std::byte> handle = regions[shard]->ipc_handle();
    if (handle.empty()) {
      region.mutable_shared_memory();
    } else {
      region.set_cuda_ipc(handle.data(), handle.size());
    }
  }
}

void SetLimits(const ServiceContext& context, v1::Limits& limits) {
  limits.set_max_blocks_per_call(context.limits.max_blocks_per_call);
  limits.set_max_tokens_per_call(kMaxTokensPerCall);
  limits.set_max_message_bytes(context.max_message_bytes);
  FromDuration(context.limits.max_wait, *limits.mutable_max_wait());
  limits.set_max_idempotency_keys(context.limits.max_idempotency_keys);
}

}  // namespace

absl::Status OpenSession(const ServiceContext& context, const Peer& peer,
                         const v1::OpenSessionRequest& request, v1::OpenSessionResponse& response) {
  KVPOOL_RETURN_IF_ERROR(CheckServing(context, "it opens no session"));
  KVPOOL_ASSIGN_OR_RETURN(const OpenSessionCall call, MakeCall(context, peer, request));
  KVPOOL_ASSIGN_OR_RETURN(const ServedPool served, context.pools.Find(request.pool()));
  KVPOOL_RETURN_IF_ERROR(CheckPool(served.pool->layout(), peer, request));
  KVPOOL_RETURN_IF_ERROR(CheckGpus(*served.pool, request));

  context.sessions.Add(call.id, served.pool, peer.process);
  const absl::StatusOr<Duration> ttl = served.pool->OpenSession(call);
  if (!ttl.ok()) {
    context.sessions.Forget(call.id);
    return ttl.status();
  }
  spdlog::info("event=session_opened session={} pool={} tenant={} client={} pid={} uid={}",
               call.id.Short(), served.pool->layout().spec.name, LogText(peer.tenant),
               LogText(call.client_name), call.pid, call.uid);
  // The pool may have been told of the process's end before it had this session of it.
  if (peer.process->is_gone()) served.pool->ProcessGone(peer.process->id());
  response.set_session_id(call.id.ToString());
  response.set_daemon_epoch(context.daemon_epoch);
  FromDuration(*ttl, *response.mutable_ttl());
  *response.mutable_layout() = LayoutToProto(served.pool->layout());
  RedactTenants(ViewerOf(peer), *response.mutable_layout());
  AddRegions(served, response);
  SetLimits(context, *response.mutable_limits());
  return absl::OkStatus();
}

}  // namespace kvpool::server
