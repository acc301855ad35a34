// Runs random calls against the policies and their models. To replay a failure, set
// KVPOOL_TEST_SEED to the seed that it prints.

#include <chrono>
#include <cstdint>
#include <iterator>
#include <optional>

#include "core/ledger/eviction/leaf_lru.h"
#include "core/ledger/eviction/learned.h"
#include "tests/model/eviction/learned_model.h"
#include "tests/model/eviction/policy_model.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool {
namespace {

// Calls a policy and its model alike, as an index could: any block may become anything at any time.
class PolicyRun {
 public:
  PolicyRun(EvictionPolicy& policy, test::PolicyModel& model, uint32_t capacity,
            test::Random& random)
      : policy_(policy),
        model_(model),
        random_(random),
        capacity_(capacity),
        tenant_count_(1 + random.Below(6)),
        prefix_count_(2 + random.Below(8 * capacity)),
        max_step_ms_(1U << random.Below(22)) {}

  // One call of each. Returns whether they choose the same then.
  bool Step() {
    if (random_.OneIn(4)) now_ += std::chrono::microseconds(random_.Next() % (max_step_ms_ * 1000));
    if (random_.OneIn(20'000)) now_ += std::chrono::hours(random_.Below(40));
    if (random_.OneIn(3)) Both([this](EvictionPolicy& policy) { policy.CountRequest(now_); });
    Change();
    const TenantSlot tenant = random_.OneIn(2) ? kNoTenant : RandomTenant();
    const std::optional<BlockId> choice = policy_.Choose(tenant, now_);
    if (choice != model_.Choose(tenant, now_)) return false;
    if (policy_.ChooseHeldLeaf(tenant) != model_.ChooseHeldLeaf(tenant)) return false;
    const bool is_tight = model_.blocks().size() + 1 >= capacity_;
    if (choice.has_value() && (is_tight || random_.OneIn(8))) {
      Both([&](EvictionPolicy& policy) { policy.ForgetEvicted(*choice, now_); });
    }
    return true;
  }

 private:
  template <typename Call>
  void Both(const Call& call) {
    call(policy_);
    call(model_);
  }
  TenantSlot RandomTenant() { return TenantSlot{random_.Below(tenant_count_)}; }

  void Change() {
    const BlockId block{random_.Below(capacity_)};
    const auto found = model_.blocks().find(block);
    if (found == model_.blocks().end()) {
      const TenantSlot tenant = RandomTenant();
      const uint64_t prefix = random_.Below(prefix_count_) * 0x100000001U;
      Both([&](EvictionPolicy& policy) { policy.AddBlock(block, tenant, prefix, now_); });
      if (random_.OneIn(2)) Both([&](EvictionPolicy& policy) { policy.AddCandidate(block); });
      return;
    }
    const bool is_candidate = found->second.is_candidate;
    const bool is_held_leaf = found->second.is_held_leaf;
    const uint32_t call = random_.Below(40);
    Both([&](EvictionPolicy& policy) {
      if (call == 0) {
        policy.ForgetRemoved(block, now_);
      } else if (call == 1) {
        policy.ForgetEvicted(block, now_);
      } else if (call < 4) {
        policy.HintDone(block);
      } else if (call < 20) {
        policy.UseBlock(block, now_);
      } else if (is_held_leaf) {
        policy.RemoveHeldLeaf(block);
        if (call < 35) policy.AddCandidate(block);
      } else if (!is_candidate) {
        policy.AddCandidate(block);
      } else if (call < 25) {
        policy.RemoveCandidate(block);
        if (call < 23) policy.AddHeldLeaf(block);
      }
    });
  }

  EvictionPolicy& policy_;
  test::PolicyModel& model_;
  test::Random& random_;
  const uint32_t capacity_;
  const uint32_t tenant_count_;
  const uint32_t prefix_count_;
  const uint32_t max_step_ms_;
  TimePoint now_{std::chrono::seconds(1)};
};

constexpr int kRuns = 50;
constexpr int kSteps = KVPOOL_EVICTION_MODEL_STEPS / kRuns;

// Few blocks, or enough for a tenant to have more than the candidates whose bins are followed.
uint32_t RandomCapacity(test::Random& random) {
  return 1 + random.Below(random.OneIn(2) ? 20 : 400);
}

}  // namespace

TEST_CASE("LeafLru chooses as a search through all candidates does, over random calls") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  for (int run = 0; run < kRuns; ++run) {
    const uint32_t capacity = RandomCapacity(random);
    LeafLru policy;
    test::LeafLruModel model;
    PolicyRun calls(policy, model, capacity, random);
    for (int step = 0; step < kSteps; ++step) {
      if (calls.Step()) continue;
      CAPTURE(seed, run, step, capacity);
      FAIL("the policy chooses another block than the model");
    }
  }
  SUCCEED();
}

TEST_CASE("Learned chooses as a search by its rules does, over random calls") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  for (int run = 0; run < kRuns; ++run) {
    const uint32_t capacity = RandomCapacity(random);
    Learned policy(capacity);
    test::LearnedModel model(capacity);
    PolicyRun calls(policy, model, capacity, random);
    for (int step = 0; step < kSteps; ++step) {
      if (calls.Step()) continue;
      CAPTURE(seed, run, step, capacity);
      FAIL("the policy chooses another block than the model");
    }
  }
  SUCCEED();
}

}  // namespace kvpool
