#include "core/ledger/guaranteed_calls.h"

#include <algorithm>
#include <array>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool {
namespace {

constexpr SessionSlot kA{0};
constexpr SessionSlot kB{1};
constexpr TenantSlot kTenant{0};
constexpr TenantSlot kOther{1};

std::optional<uint64_t> Find(const GuaranteedCalls& calls, uint32_t room) {
  return calls.Find([room](TenantSlot) { return room; });
}

TEST_CASE("GuaranteedCalls finds the first that its session's guarantee and the pool can serve") {
  GuaranteedCalls calls;
  calls.Add(1, {.session = kA, .tenant = kTenant});
  calls.Add(2, {.session = kA, .tenant = kTenant});
  calls.Add(3, {.session = kB, .tenant = kTenant});
  CHECK_FALSE(Find(calls, 9).has_value());
  calls.SetNeed(1, {{.guarantee = 3, .blocks = 3}});
  calls.SetNeed(2, {{.guarantee = 2, .blocks = 1}});
  calls.SetNeed(3, {{.guarantee = -1, .blocks = 0}});
  CHECK(Find(calls, 9) == 3U);
  calls.SetUnfilled(kB, -2);
  CHECK_FALSE(Find(calls, 9).has_value());
  calls.SetUnfilled(kA, 2);
  CHECK(Find(calls, 9) == 2U);
  CHECK_FALSE(Find(calls, 0).has_value());
  calls.SetUnfilled(kA, 3);
  CHECK(Find(calls, 9) == 1U);
  CHECK(Find(calls, 2) == 2U);
  calls.SetNeed(1, std::nullopt);
  CHECK(Find(calls, 9) == 2U);
}

TEST_CASE("GuaranteedCalls brings the next of equal calls to the fore when the first leaves") {
  GuaranteedCalls calls;
  for (const uint64_t number : {1U, 2U, 3U}) {
    calls.Add(number, {.session = kA, .tenant = kTenant});
  }
  calls.SetUnfilled(kA, 1);
  calls.SetNeed(2, {{.guarantee = 1, .blocks = 1}});
  calls.SetNeed(3, {{.guarantee = 1, .blocks = 1}});
  CHECK(Find(calls, 1) == 2U);
  calls.SetNeed(1, {{.guarantee = 1, .blocks = 1}});
  CHECK(Find(calls, 1) == 1U);
  for (const uint64_t number : {1U, 2U, 3U}) {
    CHECK(Find(calls, 1) == number);
    calls.Remove(number);
  }
  CHECK(calls.is_empty());
}

TEST_CASE("GuaranteedCalls asks for each tenant's room") {
  GuaranteedCalls calls;
  calls.Add(1, {.session = kA, .tenant = kTenant});
  calls.Add(2, {.session = kB, .tenant = kOther});
  for (const uint64_t number : {1U, 2U}) calls.SetNeed(number, {{.guarantee = 0, .blocks = 2}});
  const auto find = [&](uint32_t room, uint32_t other) {
    return calls.Find([&](TenantSlot tenant) { return tenant == kTenant ? room : other; });
  };
  CHECK(find(2, 2) == 1U);
  CHECK(find(1, 2) == 2U);
  CHECK_FALSE(find(1, 1).has_value());
}

TEST_CASE("GuaranteedCalls agrees with a list of calls over random ones") {
  struct Call {
    uint64_t number;
    uint32_t session;
    std::optional<GuaranteedCalls::Need> need;
  };
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  GuaranteedCalls calls;
  std::vector<Call> model;
  std::array<int64_t, 3> unfilled{};
  uint64_t last = 0;
  for (int step = 0; step < 20'000; ++step) {
    CAPTURE(seed, step);
    const uint32_t session = random.Below(3);
    const auto slot = SessionSlot{session};
    const uint32_t choice = random.Below(4);
    if (choice == 0) {
      model.push_back({++last, session, std::nullopt});
      calls.Add(last, {.session = slot, .tenant = TenantSlot{session / 2}});
      calls.SetUnfilled(slot, unfilled[session]);
    } else if (choice == 1) {
      unfilled[session] = int64_t{random.Below(7)} - 2;
      calls.SetUnfilled(slot, unfilled[session]);
    } else if (!model.empty()) {
      Call& call = model[random.Below(static_cast<uint32_t>(model.size()))];
      if (choice == 2 && random.OneIn(model.size() > 12 ? 1 : 3)) {
        calls.Remove(call.number);
        std::erase_if(model, [number = call.number](const Call& c) { return c.number == number; });
      } else {
        call.need.reset();
        if (!random.OneIn(5)) {
          call.need = {.guarantee = int64_t{random.Below(7)} - 2, .blocks = random.Below(4)};
        }
        calls.SetNeed(call.number, call.need);
      }
    }
    const std::array<uint32_t, 2> room = {random.Below(4), random.Below(4)};
    const auto found = std::ranges::find_if(model, [&](const Call& call) {
      return call.need.has_value() && call.need->guarantee <= unfilled[call.session] &&
             call.need->blocks <= room[call.session / 2];
    });
    const auto expected = found == model.end() ? std::nullopt : std::optional(found->number);
    REQUIRE(calls.Find([&](TenantSlot tenant) { return room[ToIndex(tenant)]; }) == expected);
  }
}

}  // namespace
}  // namespace kvpool
