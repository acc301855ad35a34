#include "core/pool.h"

#include <algorithm>
#include <utility>

#include "core/ledger/policy_names.h"
#include "core/pool/block_reader.h"
#include "core/pool/byte_operations.h"
#include "core/pool/checksum_job.h"
#include "core/pool/pool_ledger.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

LedgerOptions MakeLedgerOptions(const PoolOptions& options, TimePoint now) {
  return {
      .num_blocks = options.layout.num_blocks,
      .fill_on_alloc = options.layout.spec.fill_on_alloc,
      .max_blocks_per_tenant = options.layout.spec.max_blocks_per_tenant,
      .eviction_policy =
          FindPolicy(options.layout.spec.eviction_policy).value_or(EvictionPolicyName::kLearned),
      .trace = options.trace,
      .claim_grace = options.claim_grace,
      .before_first_generation = options.before_first_generation,
      // So that no number is one of a pool before it: a change takes more than a nanosecond.
      .before_first_change = static_cast<uint64_t>(now.time_since_epoch().count()),
      .limits = options.limits};
}

}  // namespace

absl::StatusOr<std::shared_ptr<Pool>> Pool::Create(const PoolOptions& options,
                                                   std::span<Device* const> devices,
                                                   const Clock& clock, PoolObserver& observer) {
  std::unique_ptr<Memory> memory;
  KVPOOL_ASSIGN_OR_RETURN(memory, Memory::Create(options.layout, devices));
  return std::shared_ptr<Pool>(new Pool(options, std::move(memory), clock, observer));
}

Pool::Pool(const PoolOptions& options, std::unique_ptr<Memory> memory, const Clock& clock,
           PoolObserver& observer)
    : memory_(std::move(memory)),
      ledger_(std::make_unique<PoolLedger>(
          MakeLedgerOptions(options, clock()), clock, observer,
          [this](FillNeeded fill) { FillAllocated(handle(), std::move(fill)); })),
      reclaim_slice_(options.limits.reclaim_slice) {}

Pool::~Pool() = default;

PoolHandle Pool::handle() {
  const std::shared_ptr<Pool> self = shared_from_this();
  return {.ledger = std::shared_ptr<PoolLedger>(self, ledger_.get()),
          .memory = std::shared_ptr<Memory>(self, memory_.get())};
}

absl::StatusOr<Duration> Pool::OpenSession(const OpenSessionCall& call) {
  KVPOOL_RETURN_IF_ERROR(memory_->health());
  return ledger_->Run([&](Ledger& ledger, TimePoint now) { return ledger.OpenSession(call, now); });
}

absl::Status Pool::Attach(const Caller& caller, ProcessId process) {
  return ledger_->Run(
      [&](Ledger& ledger, TimePoint now) { return ledger.Attach(caller, process, now); });
}

void Pool::Detach(const SessionId& session) {
  ledger_->Run([&](Ledger& ledger, TimePoint now) { ledger.Detach(session, now); });
}

absl::Status Pool::AddProcess(const Caller& caller, ProcessId process) {
  return ledger_->Run(
      [&](Ledger& ledger, TimePoint now) { return ledger.AddProcess(caller, process, now); });
}

absl::Status Pool::CloseSession(const Caller& caller) {
  return ledger_->Run(
      [&](Ledger& ledger, TimePoint now) { return ledger.CloseSession(caller, now); });
}

absl::Status Pool::TerminateSession(const SessionId& session, bool release_claims) {
  return ledger_->Run([&](Ledger& ledger, TimePoint now) {
    return ledger.TerminateSession(session, release_claims, now);
  });
}

void Pool::ProcessGone(ProcessId process) {
  ledger_->Run([&](Ledger& ledger, TimePoint now) { ledger.ProcessGone(process, now); });
}

PendingId Pool::Alloc(const AllocCall& call, AllocCallback done) {
  if (absl::Status health = memory_->health(); !health.ok()) {
    done(std::move(health));
    return PendingId{};
  }
  return ledger_->Alloc(call, std::move(done), shared_from_this());
}

void Pool::Cancel(PendingId id) { ledger_->Cancel(id); }

absl::Status Pool::IncRef(const IncRefCall& call) {
  KVPOOL_RETURN_IF_ERROR(memory_->health());
  return ledger_->Run([&](Ledger& ledger, TimePoint now) { return ledger.IncRef(call, now); });
}

absl::StatusOr<DecRefAnswer> Pool::DecRef(const DecRefCall& call) {
  return ledger_->Run([&](Ledger& ledger, TimePoint now) { return ledger.DecRef(call, now); });
}

absl::StatusOr<PrefixKeys> Pool::HashPrefix(const Caller& caller, Prefix prefix,
                                            size_t max_blocks) const {
  std::string model_id;
  KVPOOL_ASSIGN_OR_RETURN(
      model_id, ledger_->Read([&](const Ledger& ledger) { return ledger.GetModel(caller); }));
  prefix.space.fingerprint = layout().fingerprint;
  prefix.space.tenant = caller.tenant;
  prefix.space.model_id = model_id;
  KVPOOL_RETURN_IF_ERROR(CheckPrefix(prefix));
  return hasher_.Hash(prefix, *layout().spec.block_size, max_blocks);
}

absl::StatusOr<PublishAnswer> Pool::Publish(const PublishCall& call) {
  KVPOOL_RETURN_IF_ERROR(memory_->health());
  return ledger_->Run([&](Ledger& ledger, TimePoint now) { return ledger.Publish(call, now); });
}

absl::StatusOr<LookupAnswer> Pool::Lookup(const LookupCall& call) {
  KVPOOL_RETURN_IF_ERROR(memory_->health());
  return ledger_->Run([&](Ledger& ledger, TimePoint now) { return ledger.Lookup(call, now); });
}

absl::StatusOr<EvictAnswer> Pool::Evict(const EvictCall& call) {
  return ledger_->Run([&](Ledger& ledger, TimePoint now) { return ledger.Evict(call, now); });
}

uint32_t Pool::ResetPrefixes(std::optional<absl::string_view> tenant) {
  return ledger_->Run(
      [&](Ledger& ledger, TimePoint now) { return ledger.ResetPrefixes(tenant, now); });
}

WatchId Pool::OpenWatch(const WatchCall& call, const std::function<void()>& wake) {
  return ledger_->OpenWatch(call, wake);
}

WatchProgress Pool::ReadWatch(WatchId id, std::vector<PrefixEvent>& events) {
  return ledger_->ReadWatch(id, events);
}

uint64_t Pool::WatchSequence(WatchId id) const { return ledger_->WatchSequence(id); }

void Pool::CloseWatch(WatchId id) { ledger_->CloseWatch(id); }

void Pool::FillBlocks(const Caller& caller, std::vector<BlockRef> blocks, Fill fill, Done done) {
  kvpool::FillBlocks(handle(), caller, std::move(blocks), fill, std::move(done));
}

void Pool::CopyBlocks(const std::shared_ptr<Pool>& source, const std::shared_ptr<Pool>& destination,
                      const Caller& caller, std::vector<BlockRef> sources,
                      std::vector<BlockRef> destinations,
                      std::optional<SessionId> destination_session, Done done) {
  kvpool::CopyBlocks(source->handle(), destination->handle(), caller,
                     {.sources = std::move(sources),
                      .destinations = std::move(destinations),
                      .destination_session = destination_session},
                     std::move(done));
}

absl::StatusOr<std::unique_ptr<Pool::Reader>> Pool::OpenReader(const Caller& caller,
                                                               std::vector<BlockRef> blocks,
                                                               std::vector<uint32_t> layers,
                                                               uint32_t shard) {
  return OpenBlockReader(handle(), caller, std::move(blocks), std::move(layers), shard);
}

void Pool::Write(const Caller& caller, BlockPiece piece, Done done) {
  WritePiece(handle(), caller, std::move(piece), std::move(done));
}

absl::Status Pool::BeginCall(const Caller& caller) {
  return ledger_->Run([&](Ledger& ledger, TimePoint now) { return ledger.BeginCall(caller, now); });
}

void Pool::EndCall(const SessionId& session) {
  ledger_->Run([&](Ledger& ledger, TimePoint now) { ledger.EndCall(session, now); });
}

void Pool::ChecksumLayers(
    std::vector<BlockRef> blocks, uint32_t boundary, uint32_t shard,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<LayerChecksum>>)> done) {
  kvpool::ChecksumLayers(handle(), std::move(blocks), boundary, shard, std::move(done));
}

void Pool::ChecksumBlocks(
    std::vector<BlockRef> blocks, uint32_t layer, uint32_t shard,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<BlockChecksum>>)> done) {
  kvpool::ChecksumBlocks(handle(), std::move(blocks), layer, shard, std::move(done));
}

std::optional<TimePoint> Pool::Advance() {
  return ledger_->Run([&](Ledger& ledger, TimePoint now) -> std::optional<TimePoint> {
    ledger.Advance(now);
    if (ledger.Reclaim(reclaim_slice_, now)) return now;
    return ledger.NextDeadline();
  });
}

LedgerCounts Pool::counts() const {
  return ledger_->Read([](const Ledger& ledger) { return ledger.counts(); });
}

bool Pool::is_idle() const {
  return ledger_->Read([](const Ledger& ledger) { return ledger.is_idle(); });
}

BlockInfo Pool::GetBlock(BlockId block) const {
  return ledger_->Read([&](const Ledger& ledger) { return ledger.GetBlock(block); });
}

std::vector<BlockInfo> Pool::ListBlocks(uint32_t first, uint32_t count) const {
  const uint32_t num_blocks = layout().num_blocks;
  const uint32_t begin = std::min(first, num_blocks);
  const uint32_t end = begin + std::min(count, num_blocks - begin);
  std::vector<BlockInfo> blocks;
  blocks.reserve(end - begin);
  // A run at a time, so that a long list keeps nobody waiting for the mutex.
  for (uint32_t next = begin; next < end;) {
    const uint32_t stop = next + std::min(kBlocksAStep, end - next);
    ledger_->Read([&](const Ledger& ledger) {
      for (; next < stop; ++next) blocks.push_back(ledger.GetBlock(BlockId{next}));
    });
  }
  return blocks;
}

std::string Pool::TraceLine(BlockId block) const {
  return ledger_->Read([&](const Ledger& ledger) { return ledger.TraceLine(block); });
}

absl::StatusOr<SessionInfo> Pool::GetSession(const SessionId& session, uint32_t max_blocks) const {
  return ledger_->Read(
      [&](const Ledger& ledger) { return ledger.GetSession(session, max_blocks); });
}

std::vector<SessionInfo> Pool::ListSessions() const {
  return ledger_->Read([](const Ledger& ledger) { return ledger.ListSessions(); });
}

absl::Status Pool::CheckInvariants() const {
  return ledger_->Read([](const Ledger& ledger) { return ledger.CheckInvariants(); });
}

}  // namespace kvpool
