#include "core/pool/byte_operations.h"

#include <functional>
#include <span>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

std::vector<BlockId> IdsOf(std::span<const BlockRef> refs) {
  std::vector<BlockId> ids;
  ids.reserve(refs.size());
  for (const BlockRef& ref : refs) ids.push_back(ref.block);
  return ids;
}

// INVALID_ARGUMENT where the lists cannot be pairs, or where the order of the copies would matter.
absl::Status CheckCopy(const CopyRequest& request, bool same_pool) {
  if (request.sources.size() != request.destinations.size()) {
    return absl::InvalidArgumentError(absl::StrCat(request.sources.size(), " sources for ",
                                                   request.destinations.size(), " destinations"));
  }
  constexpr absl::string_view kSource = "also a source";
  constexpr absl::string_view kTwice = "listed twice";
  absl::flat_hash_map<BlockId, absl::string_view> taken;
  if (same_pool) {
    for (const BlockRef& source : request.sources) taken.emplace(source.block, kSource);
  }
  for (size_t i = 0; i < request.destinations.size(); ++i) {
    const BlockId block = request.destinations[i].block;
    const auto [found, is_new] = taken.emplace(block, kTwice);
    if (is_new) continue;
    return MakeError(
        absl::StatusCode::kInvalidArgument,
        {.index = static_cast<uint32_t>(i), .block_id = ToIndex(block)},
        absl::StrCat("entry ", i, ": destination block ", ToIndex(block), " is ", found->second));
  }
  return absl::OkStatus();
}

absl::Status CheckLayouts(const PoolLayout& source, const PoolLayout& destination) {
  const ErrorDetail detail{.reason = Reason::kLayoutMismatch};
  if (source.fingerprint != destination.fingerprint) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, detail,
        absl::StrCat("pool '", source.spec.name, "' has fingerprint ", source.fingerprint,
                     ", pool '", destination.spec.name, "' has ", destination.fingerprint));
  }
  if (source.num_shards() != destination.num_shards()) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, detail,
        absl::StrCat("pool '", source.spec.name, "' has ", source.num_shards(), " shards, pool '",
                     destination.spec.name, "' has ", destination.num_shards()));
  }
  return absl::OkStatus();
}

// Which blocks of which pools a copy pins.
absl::StatusOr<std::vector<SliceSide>> MakeCopySides(const PoolHandle& source,
                                                     const PoolHandle& destination,
                                                     const Caller& caller, CopyRequest request) {
  std::vector<SliceSide> sides(1);
  KVPOOL_ASSIGN_OR_RETURN(sides[0].call, RunningCall::Begin(source, caller));
  sides[0].reads = std::move(request.sources);
  const SessionId writer = request.destination_session.value_or(caller.session);
  if (source.ledger == destination.ledger) {
    sides[0].writes = std::move(request.destinations);
    if (writer != caller.session) {
      KVPOOL_ASSIGN_OR_RETURN(
          sides[0].write_call,
          RunningCall::Begin(source, Caller{.session = writer, .tenant = caller.tenant}));
    }
    return sides;
  }
  SliceSide& other = sides.emplace_back();
  KVPOOL_ASSIGN_OR_RETURN(
      other.call,
      RunningCall::Begin(destination, Caller{.session = writer, .tenant = caller.tenant}));
  other.writes = std::move(request.destinations);
  // One order for every copy between the two pools, whichever way it goes: copies that hold a
  // pin in one and wait in the other then cannot wait for each other.
  if (std::less<>()(destination.ledger.get(), source.ledger.get())) std::swap(sides[0], sides[1]);
  return sides;
}

}  // namespace

uint8_t FillValue(Fill fill) { return fill == Fill::kPoison ? 0xFF : 0x00; }

void FillBlocks(const PoolHandle& pool, const Caller& caller, std::vector<BlockRef> blocks,
                Fill fill, SlicedOperation::Done done) {
  if (fill != Fill::kZero && fill != Fill::kPoison) {
    return done(absl::InvalidArgumentError("fill is neither zero nor poison"));
  }
  absl::StatusOr<std::unique_ptr<RunningCall>> call = RunningCall::Begin(pool, caller);
  if (!call.ok()) return done(std::move(call).status());

  std::vector<BlockId> ids = IdsOf(blocks);
  const size_t size = ids.size();
  std::vector<SliceSide> sides(1);
  sides[0].call = *std::move(call);
  sides[0].writes = std::move(blocks);
  SlicedOperation::Start(
      std::move(sides), size, SlicedOperation::SliceBlocks(pool.memory->layout()),
      [memory = pool.memory, ids = std::move(ids), value = FillValue(fill)](
          size_t first, size_t count, Completion filled) {
        memory->Fill(std::span(ids).subspan(first, count), value, std::move(filled));
      },
      std::move(done));
}

void CopyBlocks(const PoolHandle& source, const PoolHandle& destination, const Caller& caller,
                CopyRequest request, SlicedOperation::Done done) {
  absl::Status valid = CheckCopy(request, source.ledger == destination.ledger);
  if (valid.ok()) valid = CheckLayouts(source.memory->layout(), destination.memory->layout());
  if (!valid.ok()) return done(std::move(valid));

  std::vector<BlockId> from = IdsOf(request.sources);
  std::vector<BlockId> to = IdsOf(request.destinations);
  const size_t size = from.size();
  absl::StatusOr<std::vector<SliceSide>> sides =
      MakeCopySides(source, destination, caller, std::move(request));
  if (!sides.ok()) return done(std::move(sides).status());

  SlicedOperation::Start(
      *std::move(sides), size, SlicedOperation::SliceBlocks(source.memory->layout()),
      [source = source.memory, destination = destination.memory, from = std::move(from),
       to = std::move(to)](size_t first, size_t count, Completion copied) {
        source->Copy(std::span(from).subspan(first, count), *destination,
                     std::span(to).subspan(first, count), std::move(copied));
      },
      std::move(done));
}

void WritePiece(const PoolHandle& pool, const Caller& caller, BlockPiece piece,
                SlicedOperation::Done done) {
  absl::StatusOr<std::unique_ptr<RunningCall>> call = RunningCall::Begin(pool, caller);
  if (!call.ok()) return done(std::move(call).status());
  if (piece.range.size_bytes != piece.data.size()) {
    return done(absl::InvalidArgumentError(
        absl::StrCat("a piece of ", piece.range.size_bytes, " bytes has ", piece.data.size())));
  }
  absl::Status valid = pool.memory->Check(piece.range);
  if (!valid.ok()) return done(std::move(valid));

  std::vector<SliceSide> sides(1);
  sides[0].call = *std::move(call);
  sides[0].writes = {{.block = piece.range.block, .generation = Generation{}}};
  SlicedOperation::Start(
      std::move(sides), /*size=*/1, /*slice_blocks=*/1,
      [memory = pool.memory, piece = std::move(piece)](size_t, size_t, Completion written) {
        memory->Write(piece.range, std::as_bytes(std::span(piece.data)), std::move(written));
      },
      std::move(done));
}

void FillAllocated(const PoolHandle& pool, FillNeeded fill) {
  std::vector<BlockId> ids = std::move(fill.zero);
  const size_t zero_count = ids.size();
  ids.insert(ids.end(), fill.poison.begin(), fill.poison.end());
  const size_t size = ids.size();
  SlicedOperation::Start(
      /*sides=*/{}, size, SlicedOperation::SliceBlocks(pool.memory->layout()),
      [memory = pool.memory, ids = std::move(ids), zero_count](size_t first, size_t count,
                                                               Completion filled) {
        // A slice across the border of the two is done in two parts.
        const auto slice = std::span(ids).subspan(first, count);
        if (first >= zero_count)
          return memory->Fill(slice, FillValue(Fill::kPoison), std::move(filled));
        if (first + count <= zero_count)
          return memory->Fill(slice, FillValue(Fill::kZero), std::move(filled));
        const auto poison = slice.subspan(zero_count - first);
        memory->Fill(slice.first(zero_count - first), FillValue(Fill::kZero),
                     [memory, poison, filled = std::move(filled)](absl::Status status) mutable {
                       if (!status.ok()) return filled(std::move(status));
                       memory->Fill(poison, FillValue(Fill::kPoison), std::move(filled));
                     });
      },
      [ledger = pool.ledger, id = fill.id](const absl::Status& status) {
        ledger->Run([&](Ledger& state, TimePoint now) { state.FillDone(id, status, now); });
      });
}

}  // namespace kvpool
