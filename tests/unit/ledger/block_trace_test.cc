#include "core/ledger/block_trace.h"

#include "tests/support/catch.h"

namespace kvpool {
namespace {

Cause CauseOf(absl::string_view name, int64_t seconds) {
  Cause cause = {.name = name, .session = {}, .time = TimePoint{std::chrono::seconds(seconds)}};
  cause.session.bytes.fill(0xAB);
  return cause;
}

TEST_CASE("BlockTrace's line names operation, count after and caller, oldest first") {
  BlockTrace trace;
  trace.Record(BlockId{3}, TraceOperation::kAlloc, 1, CauseOf("Alloc", 1));
  trace.Record(BlockId{3}, TraceOperation::kInc, 2, CauseOf("IncRef", 2));
  trace.Record(BlockId{3}, TraceOperation::kDec, 1, CauseOf("DecRef", 3));
  CHECK(trace.Line(BlockId{3}) ==
        "alloc->1 @Alloc:abababab | inc->2 @IncRef:abababab | dec->1 @DecRef:abababab");
  CHECK(trace.Line(BlockId{2}).empty());
  CHECK(trace.Line(BlockId{900}).empty());
}

TEST_CASE("BlockTrace names every operation") {
  BlockTrace trace;
  for (const TraceOperation operation :
       {TraceOperation::kPublish, TraceOperation::kAcquire, TraceOperation::kEvict,
        TraceOperation::kRelease, TraceOperation::kQuarantine, TraceOperation::kFree}) {
    trace.Record(BlockId{0}, operation, 0, CauseOf("x", 0));
  }
  CHECK(trace.Line(BlockId{0}) ==
        "publish->0 @x:abababab | acquire->0 @x:abababab | evict->0 @x:abababab | "
        "release->0 @x:abababab | quarantine->0 @x:abababab | free->0 @x:abababab");
}

TEST_CASE("BlockTrace keeps the last 24 events of a block, with their times") {
  BlockTrace trace;
  for (uint32_t i = 0; i < 30; ++i) {
    trace.Record(BlockId{0}, TraceOperation::kInc, i, CauseOf("IncRef", i));
  }
  const auto history = trace.History(BlockId{0});
  REQUIRE(history.size() == 24);
  CHECK(history.front().ref_count_after == 6);
  CHECK(history.back().ref_count_after == 29);
  CHECK(history.back().time == TimePoint{std::chrono::seconds(29)});
  CHECK(history.back().caller == "IncRef:abababab");
}

}  // namespace
}  // namespace kvpool
