#include "tests/simulation/action.h"

#include "absl/strings/str_cat.h"

namespace kvpool::simulation {
namespace {

constexpr std::array<const char*, kActionKinds> kNames = {
    "alloc", "admit",     "find",    "peek",           "write",      "publish",       "release",
    "offer", "take",      "evict",   "reopen",         "kill",       "stop",          "continue",
    "break", "terminate", "restart", "reset_prefixes", "hold_fills", "release_fills", "pass"};

}  // namespace

std::string Action::ToString() const {
  return absl::StrCat("worker ", slot, " ", kNames[static_cast<size_t>(kind)], " (", seed, ")");
}

}  // namespace kvpool::simulation
