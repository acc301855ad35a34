// Every call of the driver failing once: a pool on a GPU, used as workers use it, with each call
// that a clean run makes failing in a run of its own, in a process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "core/device/gpus.h"
#include "core/status_macros.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/support/catch.h"
#include "tests/support/sanitizer.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/pool/pool_fixture.h"

namespace kvpool::test {
namespace {

// Enough for kernels to be launched, few for there to be few calls.
constexpr uint32_t kBlocks = 8;

// A result that is of one call alone, and one after which the context can do nothing more.
constexpr int kOnce = 1;
constexpr int kForGood = 700;

absl::StatusOr<std::string> ReadSides(Pool& pool, const TestSession& session,
                                      const std::vector<BlockRef>& blocks) {
  KVPOOL_ASSIGN_OR_RETURN(const std::unique_ptr<Pool::Reader> reader,
                          pool.OpenReader(session.caller(), blocks, {}, /*shard=*/0));
  KVPOOL_ASSIGN_OR_RETURN(const std::vector<BlockPiece> pieces, ReadAll(*reader));
  std::string bytes;
  for (const BlockPiece& piece : pieces) bytes += piece.data;
  return bytes;
}

// DATA_LOSS, saying where, unless the blocks' bytes are as expected.
absl::Status CheckBytes(Pool& pool, const TestSession& session, const std::vector<BlockRef>& blocks,
                        const std::string& expected, const char* what) {
  KVPOOL_ASSIGN_OR_RETURN(const std::string bytes, ReadSides(pool, session, blocks));
  return bytes == expected ? absl::OkStatus() : absl::DataLossError(what);
}

// What a session does with bytes: new blocks are zero, what is written is there, copies are the
// same, checksums tell one from another.
absl::Status UseBytes(Pool& pool, const TestSession& session) {
  Answer<AllocResult> alloc;
  pool.Alloc(MakeAllocCall(session, kBlocks, Fill::kZero), alloc.callback());
  KVPOOL_ASSIGN_OR_RETURN(const AllocAnswer allocated, alloc.Take());
  const std::vector<BlockRef>& blocks = allocated.blocks;
  const uint64_t block_bytes = pool.layout().block_bytes;
  // Two of them: each side that is read is a handful of calls.
  KVPOOL_RETURN_IF_ERROR(CheckBytes(pool, session, {blocks.front(), blocks.back()},
                                    std::string(2 * block_bytes, '\0'), "new blocks"));

  const BlockPiece piece = MakePiece({.block = blocks[0].block, .size_bytes = 512}, /*seed=*/1);
  std::string written = piece.data + std::string(block_bytes - piece.data.size(), '\0');
  Answer<absl::Status> write;
  pool.Write(session.caller(), piece, write.callback());
  KVPOOL_RETURN_IF_ERROR(write.Take());

  const std::vector<BlockRef> first(blocks.begin(), blocks.begin() + kBlocks / 2);
  const std::vector<BlockRef> second(blocks.begin() + kBlocks / 2, blocks.end());
  Answer<absl::Status> copy;
  const auto self = pool.shared_from_this();
  Pool::CopyBlocks(self, self, session.caller(), first, second, {}, copy.callback());
  KVPOOL_RETURN_IF_ERROR(copy.Take());
  KVPOOL_RETURN_IF_ERROR(CheckBytes(pool, session, {second[0]}, written, "the copy"));

  Answer<absl::Status> fill;
  pool.FillBlocks(session.caller(), {first[1]}, Fill::kPoison, fill.callback());
  KVPOOL_RETURN_IF_ERROR(fill.Take());
  KVPOOL_RETURN_IF_ERROR(
      CheckBytes(pool, session, {first[1]}, std::string(block_bytes, '\xFF'), "a poisoned block"));

  Answer<absl::StatusOr<std::vector<BlockChecksum>>> checksum;
  pool.ChecksumBlocks({first[0], second[0], second[1]}, /*layer=*/0, /*shard=*/0,
                      checksum.callback());
  KVPOOL_ASSIGN_OR_RETURN(const std::vector<BlockChecksum> sums, checksum.Take());
  if (sums[0].k != sums[1].k || sums[0].k == sums[2].k) return absl::DataLossError("checksums");

  return pool.DecRef({.caller = session.caller(), .blocks = blocks}).status();
}

absl::Status Open(Pool& pool, const TestSession& session) {
  OpenSessionCall call;
  call.id = session.id;
  call.tenant = session.tenant;
  call.process = ProcessId{session.id.bytes[15]};
  call.ttl = std::chrono::hours(1);
  return pool.OpenSession(call).status();
}

// Does what the pool has to do until no block of ended sessions is left; INTERNAL where one is.
absl::Status CheckNothingIsLost(Pool& pool) {
  while (pool.Advance().has_value() && pool.counts().free_blocks < kBlocks) {
  }
  KVPOOL_RETURN_IF_ERROR(pool.CheckInvariants());
  const LedgerCounts counts = pool.counts();
  if (counts.free_blocks == kBlocks && counts.sessions == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("of ", kBlocks, " blocks ", counts.free_blocks,
                                          " are free, ", counts.held_blocks, " held, ",
                                          counts.quarantined_blocks, " quarantined"));
}

// A session from its beginning to its end, which loses nothing. Adds what it failed of to `errors`.
absl::Status RunSession(Pool& pool, uint8_t number, std::vector<absl::Status>& errors) {
  const TestSession session(number);
  if (absl::Status opened = Open(pool, session); !opened.ok()) {
    errors.push_back(std::move(opened));
    return CheckNothingIsLost(pool);
  }
  const absl::Status used = UseBytes(pool, session);
  if (absl::IsDataLoss(used)) return used;
  if (!used.ok()) errors.push_back(used);
  KVPOOL_RETURN_IF_ERROR(pool.CloseSession(session.caller()));
  return CheckNothingIsLost(pool);
}

// All of it: a driver, a device, a pool, two sessions, one after the other. Adds what was refused
// to `errors`; the status is of what must not be, whatever fails.
absl::Status RunJob(std::vector<absl::Status>& errors) {
  PoolSpec spec = SmallSpec(kBlocks);
  spec.devices = {"cuda:0"};
  PoolOptions options;
  KVPOOL_ASSIGN_OR_RETURN(options.layout, PlanPool(spec));
  RecordingObserver observer;
  const std::unique_ptr<Gpus> gpus = MakeGpus(FAKECUDA_LIBRARY);
  // What failed is tried again, once.
  absl::StatusOr<Device*> device = gpus->Find("cuda:0");
  if (!device.ok()) {
    errors.push_back(device.status());
    device = gpus->Find("cuda:0");
  }
  if (!device.ok()) {
    errors.push_back(device.status());
    return absl::OkStatus();
  }
  const std::array<Device*, 1> devices = {*device};
  const auto make = [&] {
    return Pool::Create(
        options, devices, [] { return std::chrono::steady_clock::now(); }, observer);
  };
  absl::StatusOr<std::shared_ptr<Pool>> pool = make();
  if (!pool.ok()) {
    errors.push_back(pool.status());
    pool = make();
  }
  if (!pool.ok()) {
    errors.push_back(pool.status());
    return absl::OkStatus();
  }
  KVPOOL_RETURN_IF_ERROR(RunSession(**pool, 1, errors));
  return RunSession(**pool, 2, errors);
}

// What a run came to, in one line.
std::string Live() {
  std::vector<std::string> live;
  for (const char* kind :
       {"context", "allocation", "import", "host", "stream", "event", "module"}) {
    if (const uint64_t count = fakecuda_live(kind); count > 0) {
      live.push_back(absl::StrCat(count, " ", kind));
    }
  }
  return absl::StrJoin(live, ", ");
}

struct Run {
  bool has_ended = false;  // By itself, with all that follows.
  int state = 0;           // As waitpid says.
  std::string broken;      // What must not be.
  std::vector<std::string> errors;
  std::string live;  // What the driver has still, of which kind.
};

// Runs the job in a process of its own, where a call fails as FAKECUDA_FAIL says.
Run RunApart(const TempDir& directory, const std::string& fail, const std::string& log) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(120);  // One that hangs is a failure.
    fakecuda_set("FAKECUDA_DIR", directory.File("gpu").c_str());
    if (!log.empty()) fakecuda_set("FAKECUDA_LOG", log.c_str());
    if (!fail.empty()) fakecuda_set("FAKECUDA_FAIL", fail.c_str());
    std::vector<absl::Status> errors;
    const absl::Status broken = RunJob(errors);
    std::string said = absl::StrCat(broken.ok() ? "" : broken.ToString(), "\n", Live(), "\n");
    for (const absl::Status& error : errors) absl::StrAppend(&said, error.ToString(), "\n");
    if (write(ends[1], said.data(), said.size()) < 0) _exit(1);
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  std::array<char, 4096> buffer{};
  for (ssize_t size = 0; (size = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    said.append(buffer.data(), static_cast<size_t>(size));
  }
  close(ends[0]);
  Run run;
  REQUIRE(waitpid(child, &run.state, 0) == child);
  std::istringstream lines(said);
  run.has_ended = std::getline(lines, run.broken) && std::getline(lines, run.live);
  for (std::string line; std::getline(lines, line);) run.errors.push_back(line);
  return run;
}

// How often a clean run makes each call.
std::map<std::string, int> CountCalls(const TempDir& directory) {
  const Run clean = RunApart(directory, "", directory.File("log"));
  CAPTURE(clean.state, clean.broken, clean.live, clean.errors);
  REQUIRE(clean.state == 0);
  REQUIRE(clean.has_ended);
  REQUIRE(clean.broken.empty());
  REQUIRE(clean.live.empty());
  REQUIRE(clean.errors.empty());
  std::map<std::string, int> counts;
  std::ifstream log(directory.File("log"));
  std::string call;
  for (int result = 0; log >> call >> result;) {
    REQUIRE(result == 0);
    ++counts[call];
  }
  return counts;
}

// Those that give something back, and what is needed to. Nobody is told where they fail at that,
// and what they were to give back stays.
const std::set<std::string> kReleases = {
    "cuCtxPopCurrent", "cuCtxPushCurrent", "cuDevicePrimaryCtxRelease",
    "cuEventDestroy",  "cuMemFree",        "cuMemFreeHost",
    "cuModuleUnload",  "cuStreamDestroy"};

// Those that can be done without, at least sometimes: kernels, the UUID of the whole GPU, calls of
// later drivers, sparing others' captures of graphs. Nobody is told, and all goes on.
const std::set<std::string> kOptional = {"cuModuleLoadData", "cuModuleGetFunction",
                                         "cuDeviceGetUuid", "cuGetProcAddress",
                                         "cuThreadExchangeStreamCaptureMode"};

// What an error of the call says: lookups say what was looked for.
std::string Named(const std::string& call) { return call == "cuGetProcAddress" ? "cu" : call; }

// Whether nobody looks at what the call says: where a context ends by it, the next call tells.
bool IsUnheard(const std::string& call) {
  return call == "cuThreadExchangeStreamCaptureMode" ||
         (kReleases.contains(call) && call != "cuCtxPushCurrent");
}

TEST_CASE("Whichever call of the driver fails is named, and no block, byte or memory is lost") {
  const int result = GENERATE(kOnce, kForGood);
  const TempDir directory;
  const std::map<std::string, int> counts = CountCalls(directory);
  CHECK(counts.size() > 20);
  for (const auto& [call, count] : counts) {
    // Each call's first ones, and some of the rest: what comes of a context's end hardly depends on
    // which of hundreds of calls it was.
    const int all = result == kOnce ? UnlessSanitized(1'000'000, 4) : 8;
    constexpr int kStep = UnlessSanitized(5, 11);
    for (int number = 1; number <= count; number += number < all ? 1 : kStep) {
      const std::string fail = absl::StrCat(call, ":", number, ":", result);
      const Run run = RunApart(directory, fail, "");
      CAPTURE(fail, run.state, run.broken, run.live, run.errors);
      CHECK(run.state == 0);
      CHECK(run.has_ended);
      CHECK(run.broken.empty());
      if (run.errors.empty()) {
        CHECK((kReleases.contains(call) || kOptional.contains(call)));
      } else if (!IsUnheard(call)) {
        CHECK(absl::StrContains(run.errors.front(), Named(call)));
      }
      if (result == kOnce) CHECK(run.errors.size() <= 1);
      if (!kReleases.contains(call) && result == kOnce) CHECK(run.live.empty());
    }
  }
}

}  // namespace
}  // namespace kvpool::test
