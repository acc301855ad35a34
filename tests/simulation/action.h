#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace kvpool::simulation {

enum class ActionKind : uint8_t {
  // A worker's.
  kAlloc,
  kAdmit,  // Acquire.
  kFind,   // Lookup.
  kPeek,
  kWrite,
  kPublish,
  kRelease,
  kOffer,  // Hands a block to others,
  kTake,   // who take a reference of their own.
  kEvict,
  kReopen,
  // What happens to a worker.
  kKill,
  kStop,
  kContinue,
  kBreak,
  kTerminate,
  // What happens to all.
  kRestart,
  kResetPrefixes,
  kHoldFills,
  kReleaseFills,
  kPass,  // Time: up to a minute.
  kCount,
};

inline constexpr size_t kActionKinds = static_cast<size_t>(ActionKind::kCount);
constexpr bool IsWorkers(ActionKind kind) { return kind < ActionKind::kKill; }

// One decision. What it brings about in its turn is drawn from its own seed, so that other ones can
// be left out without changing it.
struct Action {
  ActionKind kind{};
  uint32_t slot = 0;  // Whose it is, or whom it befalls.
  uint64_t seed = 0;

  std::string ToString() const;
};

}  // namespace kvpool::simulation
