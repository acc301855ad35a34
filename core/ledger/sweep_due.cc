#include "core/ledger/sweep_due.h"

#include <bit>

namespace kvpool {
namespace {

// A session may have this many more blocks in remembered answers than twice what it holds before
// the spent ones are looked for: 64 KiB.
constexpr uint64_t kSlack = 4'096;

}  // namespace

bool IsSweepDue(uint64_t before, uint64_t after, uint64_t held) {
  return after > 2 * held + kSlack && std::bit_width(after) > std::bit_width(before);
}

}  // namespace kvpool
