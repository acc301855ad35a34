#include "tests/simulation/world.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/check.h"

namespace kvpool::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint32_t kActions = 200;
// Each way up to 10 s, a copy ten times that; and the pings of who was stopped.
constexpr Duration kCalm = seconds(150);

class World {
 public:
  World(const Plan& plan, bool is_traced) : plan_(plan), random_(plan.seed) {
    if (is_traced) scheduler_.StartTrace();
    network_.weather = plan.weather;
    StartDaemon();
    for (uint32_t slot = 0; slot < plan.worker_count; ++slot) slots_.push_back(NewWorker(slot));
  }

  ~World() {
    // However it ended: what runs on a stack of its own must return.
    for (const auto& worker : workers_) worker->Kill(Duration::zero());
    for (int i = 0; i < 1'000'000 && !AllDone(); ++i) scheduler_.RunNext(scheduler_.now() + kCalm);
    KVPOOL_CHECK(AllDone());
    for (const auto& daemon : daemons_) {
      if (daemon.get() == network_.daemon) daemon->Stop();
    }
    scheduler_.Clear();
  }

  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Outcome Run() {
    for (const Action& action : plan_.actions) {
      if (HasFailed()) break;
      Apply(action);
    }
    if (!HasFailed()) ComeToRest();
    return {.failure = scheduler_.failure(),
            .steps = scheduler_.step_count() + plan_.actions.size(),
            .digest = scheduler_.digest(),
            .trace = scheduler_.trace()};
  }

 private:
  bool HasFailed() const { return !scheduler_.failure().empty(); }

  bool AllDone() const {
    return std::ranges::all_of(workers_, [](const auto& worker) { return worker->is_done(); });
  }

  void StartDaemon() {
    DaemonOptions options = plan_.daemon;
    options.epoch = daemons_.size() + 1;
    daemons_.push_back(std::make_unique<Daemon>(scheduler_, random_.Next(), options));
    network_.daemon = daemons_.back().get();
  }

  Worker* NewWorker(uint32_t slot) {
    workers_.push_back(std::make_unique<Worker>(scheduler_, network_, board_,
                                                slot % 3 == 2 ? "b" : "a", random_.Next()));
    return workers_.back().get();
  }

  void RunFor(Duration duration) {
    const TimePoint end = scheduler_.now() + duration;
    while (!HasFailed() && scheduler_.RunNext(end)) {
      if (scheduler_.step_count() % 32 == 0) CheckInvariants();
    }
  }

  void CheckInvariants() {
    if (network_.daemon == nullptr) return;
    const absl::Status status = network_.daemon->pool().CheckInvariants();
    if (!status.ok()) scheduler_.Fail(status.ToString());
  }

  void Apply(const Action& action) {
    test::Random random(action.seed);
    RunFor(std::chrono::microseconds(random.Below(random.OneIn(10) ? 50'000 : 2'000)));
    if (HasFailed()) return;
    scheduler_.Note([&] { return action.ToString(); });
    Worker*& worker = slots_[action.slot];
    if (IsWorkers(action.kind)) {
      worker->Post(action);
      return;
    }
    switch (action.kind) {
      case ActionKind::kKill:
        worker->Kill(milliseconds(random.Below(5'000)));
        worker = NewWorker(action.slot);
        break;
      case ActionKind::kStop:
        worker->Stop();
        break;
      case ActionKind::kContinue:
        worker->Continue();
        break;
      case ActionKind::kBreak:
        worker->Break(milliseconds(random.Below(1'000)));
        break;
      case ActionKind::kPass:
        RunFor(milliseconds(random.Below(60'000)));
        break;
      default:
        ApplyToDaemon(action, random);
    }
  }

  void ApplyToDaemon(const Action& action, test::Random& random) {
    Daemon* const daemon = network_.daemon;
    if (daemon == nullptr) return;
    if (action.kind == ActionKind::kRestart) {
      for (const auto& worker : workers_) worker->DaemonStops();
      daemon->Stop();
      network_.daemon = nullptr;
      scheduler_.After(milliseconds(random.Below(2'000)), [this] { StartDaemon(); });
    } else if (action.kind == ActionKind::kTerminate) {
      const std::optional<SessionId> session = slots_[action.slot]->session();
      if (session.has_value()) daemon->Terminate(*session);
    } else if (action.kind == ActionKind::kResetPrefixes) {
      daemon->ResetPrefixes();
    } else {
      daemon->HoldFills(action.kind == ActionKind::kHoldFills);
    }
  }

  // Faults stop. Each worker learns where it stands, gives back what it has or dies with it, and
  // nothing is left.
  void ComeToRest() {
    scheduler_.Note([] { return "faults stop"; });
    network_.weather = {};
    for (Worker* worker : slots_) worker->Continue();
    if (network_.daemon != nullptr) network_.daemon->HoldFills(false);
    RunFor(kCalm);
    for (Worker* worker : slots_) {
      if (HasFailed()) return;
      if (!worker->is_idle()) scheduler_.Fail("a worker is busy long after all faults");
      worker->CheckKnowledge();
    }
    for (size_t i = 0; i < slots_.size(); ++i) {
      if ((plan_.seed >> i) % 2 == 0) {
        slots_[i]->Finish();
      } else {
        slots_[i]->Kill(milliseconds(random_.Below(5'000)));
      }
    }
    // And the ttl of sessions whose opening nobody heard of.
    RunFor(kCalm);
    if (HasFailed()) return;
    if (!AllDone()) scheduler_.Fail("a worker does not end");
    CheckInvariants();
    CheckEmpty();
  }

  void CheckEmpty() {
    const LedgerCounts counts = network_.daemon->pool().counts();
    if (counts.sessions == 0 && counts.waiting_calls == 0 && counts.held_blocks == 0 &&
        counts.quarantined_blocks == 0 &&
        counts.free_blocks + counts.cached_blocks == plan_.daemon.num_blocks &&
        network_.daemon->session_count() == 0) {
      return;
    }
    scheduler_.Fail(absl::StrCat("not all comes to rest: ", counts.sessions, " sessions live, ",
                                 network_.daemon->session_count(), " are known, ",
                                 counts.waiting_calls, " calls wait, ", counts.held_blocks,
                                 " blocks are held, ", counts.quarantined_blocks, " quarantined, ",
                                 counts.free_blocks, " free, ", counts.cached_blocks, " cached"));
  }

  const Plan& plan_;
  Scheduler scheduler_;
  test::Random random_;
  Network network_;
  Board board_;
  // All that ever were: events may still name them.
  std::vector<std::unique_ptr<Daemon>> daemons_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> slots_;
};

// How often each kind comes, before the seed has its say.
constexpr std::array<uint32_t, kActionKinds> kWeights = {12, 14, 8, 2, 10, 14,
                                                         12, 6,  6, 4, 2,   // The workers'.
                                                         2,  2,  4, 2, 1,   // What befalls one.
                                                         1,  1,  1, 2, 2};  // What befalls all.

}  // namespace

Plan MakePlan(uint64_t seed) {
  test::Random random(seed);
  Plan plan;
  plan.seed = seed;
  plan.daemon.num_blocks = 4 + random.Below(12);
  if (random.OneIn(3)) plan.daemon.max_blocks_per_tenant = 3 + random.Below(4);
  if (random.OneIn(2)) plan.daemon.eviction_policy = "learned";
  plan.worker_count = 2 + random.Below(4);
  for (uint32_t* one_in : {&plan.weather.lost_requests, &plan.weather.lost_answers,
                           &plan.weather.doubled, &plan.weather.slow}) {
    *one_in = std::array<uint32_t, 4>{0, 5, 20, 100}[random.Below(4)];
  }
  std::array<uint32_t, kActionKinds> weights = kWeights;
  uint32_t sum = 0;
  for (uint32_t& weight : weights) {
    weight *= std::array<uint32_t, 5>{0, 1, 1, 2, 4}[random.Below(5)];
    sum += weight;
  }
  for (uint32_t i = 0; i < kActions && sum > 0; ++i) {
    uint32_t at = random.Below(sum);
    size_t kind = 0;
    while (at >= weights[kind]) at -= weights[kind++];
    plan.actions.push_back({.kind = static_cast<ActionKind>(kind),
                            .slot = random.Below(plan.worker_count),
                            .seed = random.Next()});
  }
  return plan;
}

Outcome RunPlan(const Plan& plan, bool is_traced) { return World(plan, is_traced).Run(); }

}  // namespace kvpool::simulation
