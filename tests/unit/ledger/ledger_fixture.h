#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/error.h"
#include "core/ledger/ledger.h"
#include "tests/support/catch.h"

namespace kvpool::test {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr ProcessId kProcess{77};

// The id of the session number `n`.
inline SessionId IdOf(uint8_t n) {
  SessionId id;
  id.bytes.fill(n);
  return id;
}

inline LedgerOptions OptionsOf(uint32_t num_blocks) { return {.num_blocks = num_blocks}; }

// How a session is opened where that matters.
struct OpenArguments {
  std::string tenant = "acme";
  std::string model_id{};
  ProcessId process = kProcess;
  Duration ttl = seconds(10);
  uint32_t guaranteed_blocks = 0;
  std::optional<SessionId> join{};
};

// What of an Alloc matters, beside whose it is.
struct AllocArguments {
  uint32_t count = 0;
  bool allow_partial = false;
  std::optional<Duration> wait{};
  Fill fill = Fill::kUnspecified;
  std::vector<BlockRef> release{};
  uint64_t key = 0;
  WaitQueue queue = WaitQueue::kGrow;
};

// A ledger, and the time, which stands still unless a test moves it. Sessions are of tenant
// "acme" unless opened otherwise. Every call is followed by a check of the ledger's invariants.
class LedgerFixture {
 public:
  explicit LedgerFixture(const LedgerOptions& options) : ledger(options) {}
  explicit LedgerFixture(uint32_t num_blocks) : ledger(OptionsOf(num_blocks)) {}

  absl::StatusOr<Duration> TryOpen(uint8_t n, const OpenArguments& arguments = {}) {
    auto ttl = ledger.OpenSession({.id = IdOf(n),
                                   .tenant = arguments.tenant,
                                   .client_name = "worker",
                                   .model_id = arguments.model_id,
                                   .process = arguments.process,
                                   .ttl = arguments.ttl,
                                   .guaranteed_blocks = arguments.guaranteed_blocks,
                                   .join = arguments.join},
                                  now);
    CheckInvariants();
    return ttl;
  }
  SessionId Open(uint8_t n, const OpenArguments& arguments = {}) {
    REQUIRE(TryOpen(n, arguments).status() == absl::OkStatus());
    return IdOf(n);
  }
  // A session that joined `parent`.
  SessionId Join(uint8_t n, const SessionId& parent, ProcessId process) {
    return Open(n, {.process = process, .join = parent});
  }

  Caller Of(const SessionId& session) const { return {.session = session, .tenant = "acme"}; }

  absl::StatusOr<AllocOutcome> TryAlloc(const SessionId& session, const AllocArguments& arguments) {
    auto outcome = ledger.Alloc({.caller = Of(session),
                                 .count = arguments.count,
                                 .allow_partial = arguments.allow_partial,
                                 .wait = arguments.wait,
                                 .fill = arguments.fill,
                                 .release = arguments.release,
                                 .idempotency_key = arguments.key,
                                 .queue = arguments.queue},
                                now);
    CheckInvariants();
    return outcome;
  }
  // An Alloc that is answered at once.
  AllocAnswer AllocNow(const SessionId& session, const AllocArguments& arguments) {
    const auto outcome = TryAlloc(session, arguments);
    REQUIRE(outcome.status() == absl::OkStatus());
    REQUIRE(outcome->pending == PendingId{});
    return outcome->answer;
  }
  std::vector<BlockRef> Alloc(const SessionId& session, uint32_t count) {
    return AllocNow(session, {.count = count}).blocks;
  }
  // An Alloc that waits, for a second or as said.
  PendingId AllocLater(const SessionId& session, AllocArguments arguments) {
    if (!arguments.wait.has_value()) arguments.wait = seconds(1);
    const auto outcome = TryAlloc(session, arguments);
    REQUIRE(outcome.status() == absl::OkStatus());
    REQUIRE(outcome->pending != PendingId{});
    return outcome->pending;
  }

  absl::Status IncRef(const SessionId& session, const std::vector<BlockRef>& blocks,
                      uint64_t key = 0) {
    const absl::Status status =
        ledger.IncRef({.caller = Of(session), .blocks = blocks, .idempotency_key = key}, now);
    CheckInvariants();
    return status;
  }
  absl::StatusOr<DecRefAnswer> DecRef(const SessionId& session, const std::vector<BlockRef>& blocks,
                                      uint64_t key = 0) {
    auto answer =
        ledger.DecRef({.caller = Of(session), .blocks = blocks, .idempotency_key = key}, now);
    CheckInvariants();
    return answer;
  }
  // A DecRef that succeeds.
  void Drop(const SessionId& session, const std::vector<BlockRef>& blocks) {
    REQUIRE(DecRef(session, blocks).status() == absl::OkStatus());
  }

  absl::Status Close(const SessionId& session) {
    const absl::Status status = ledger.CloseSession(Of(session), now);
    CheckInvariants();
    return status;
  }
  void Detach(const SessionId& session) {
    ledger.Detach(session, now);
    CheckInvariants();
  }
  void Gone(ProcessId process) {
    ledger.ProcessGone(process, now);
    CheckInvariants();
  }
  absl::Status Terminate(const SessionId& session, bool release_claims) {
    const absl::Status status = ledger.TerminateSession(session, release_claims, now);
    CheckInvariants();
    return status;
  }

  absl::StatusOr<PinOutcome> TryPin(const SessionId& session, const std::vector<BlockRef>& reads,
                                    const std::vector<BlockRef>& writes) {
    auto outcome = ledger.Pin(
        {.caller = Of(session), .reads = reads, .writes = writes, .write_session = {}}, now);
    CheckInvariants();
    return outcome;
  }
  // A pin that is granted at once, or where not, waits.
  PendingId Pin(const SessionId& session, const std::vector<BlockRef>& reads,
                const std::vector<BlockRef>& writes, bool granted) {
    const auto outcome = TryPin(session, reads, writes);
    REQUIRE(outcome.status() == absl::OkStatus());
    REQUIRE(outcome->granted == granted);
    return outcome->id;
  }
  void Unpin(PendingId id) {
    ledger.Unpin(id, now);
    CheckInvariants();
  }
  void FillDone(PendingId id, const absl::Status& status) {
    ledger.FillDone(id, status, now);
    CheckInvariants();
  }

  void Pass(Duration duration) {
    now += duration;
    ledger.Advance(now);
    CheckInvariants();
  }

  // The events of one kind that have come since the last call of any of these; others are lost.
  template <typename Event>
  std::vector<Event> Take() {
    std::vector<Event> taken;
    for (LedgerEvent& event : ledger.TakeEvents()) {
      if (auto* match = std::get_if<Event>(&event)) taken.push_back(std::move(*match));
    }
    return taken;
  }
  // The one AllocDone that has come, which is `id`'s.
  absl::StatusOr<AllocAnswer> TakeAnswer(PendingId id) {
    const auto done = Take<AllocDone>();
    REQUIRE(done.size() == 1);
    REQUIRE(done.front().id == id);
    return done.front().result;
  }

  BlockState StateOf(const BlockRef& ref) const { return ledger.GetBlock(ref.block).state; }
  uint32_t RefCountOf(const BlockRef& ref) const { return ledger.GetBlock(ref.block).ref_count; }
  uint32_t FreeBlocks() const { return ledger.counts().free_blocks; }

  void CheckInvariants() const { CHECK(ledger.CheckInvariants() == absl::OkStatus()); }

  Ledger ledger;
  TimePoint now{seconds(1'000)};
};

inline std::vector<uint32_t> IndicesOf(const std::vector<BlockRef>& refs) {
  std::vector<uint32_t> indices;
  for (const BlockRef& ref : refs) indices.push_back(ToIndex(ref.block));
  return indices;
}

// The same blocks, named without generations.
inline std::vector<BlockRef> WithoutGenerations(std::vector<BlockRef> refs) {
  for (BlockRef& ref : refs) ref.generation = Generation{};
  return refs;
}

inline void CheckError(const absl::Status& status, absl::StatusCode code, Reason reason) {
  CAPTURE(status.ToString());
  CHECK(status.code() == code);
  CHECK(ReasonName(GetErrorDetail(status).reason) == ReasonName(reason));
}

// An error that names the entry at `index`.
inline void CheckEntryError(const absl::Status& status, absl::StatusCode code, Reason reason,
                            uint32_t index, BlockId block) {
  CheckError(status, code, reason);
  CHECK(GetErrorDetail(status).index == index);
  CHECK(GetErrorDetail(status).block_id == ToIndex(block));
}

inline void CheckFull(const absl::Status& status, uint32_t available) {
  CheckError(status, absl::StatusCode::kResourceExhausted, Reason::kPoolFull);
  CHECK(GetErrorDetail(status).available == available);
}

inline void CheckUnknown(const absl::Status& status) {
  CheckError(status, absl::StatusCode::kNotFound, Reason::kSessionUnknown);
}

}  // namespace kvpool::test
