#include "client/cli/replay/arguments.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "client/cli/exit_code.h"
#include "client/cli/text.h"
#include "core/ledger/policy_names.h"
#include "core/status_macros.h"

namespace kvpool::replay {
namespace {

using cli::Printable;
using cli::UsageError;

absl::StatusOr<TraceFormat> ReadFormat(uint32_t block_tokens) {
  for (const TraceFormat& format : {kMooncakeFormat, kSmallBlockFormat}) {
    if (format.block_tokens == block_tokens) return format;
  }
  return UsageError(absl::StrCat("--block_tokens is ", block_tokens, ", not ",
                                 kMooncakeFormat.block_tokens, " or ",
                                 kSmallBlockFormat.block_tokens));
}

absl::StatusOr<uint32_t> ReadCapacity(absl::string_view text) {
  uint32_t capacity = 0;
  if (absl::SimpleAtoi(text, &capacity) && capacity <= ReplayArguments::kMaxCapacity) {
    return capacity;
  }
  return UsageError(absl::StrCat("--capacity: \"", Printable(text),
                                 "\" is no count of blocks from ", "0 to ",
                                 ReplayArguments::kMaxCapacity));
}

absl::StatusOr<EvictionPolicyName> ReadPolicy(absl::string_view text) {
  if (const auto policy = FindPolicy(text); policy.has_value()) return *policy;
  return UsageError(absl::StrCat("--policy: \"", Printable(text), "\" is not learned or leaf_lru"));
}

absl::StatusOr<SimulationArguments> ReadSimulation(const cli::Options& options) {
  for (const auto& [name, is_given] : {std::pair("pool", options.pool.has_value()),
                                       std::pair("workers", options.workers.has_value()),
                                       std::pair("speed", options.speed.has_value()),
                                       std::pair("socket", options.socket.has_value()),
                                       std::pair("timeout", options.timeout.has_value())}) {
    if (is_given)
      return UsageError(absl::StrCat("--simulate uses no daemon: it takes no --", name));
  }
  if (options.csv && options.json) return UsageError("--csv and --json exclude each other");
  if (!options.capacity.has_value()) return UsageError("--simulate needs --capacity");
  SimulationArguments simulation;
  for (const absl::string_view text : absl::StrSplit(*options.capacity, ',')) {
    if (text == "infinite") {
      simulation.capacities.emplace_back();
      continue;
    }
    KVPOOL_ASSIGN_OR_RETURN(const uint32_t capacity, ReadCapacity(text));
    simulation.capacities.emplace_back(capacity);
  }
  const std::string policies = options.policy.value_or("leaf_lru,learned");
  for (const absl::string_view text : absl::StrSplit(policies, ',')) {
    KVPOOL_ASSIGN_OR_RETURN(const EvictionPolicyName policy, ReadPolicy(text));
    if (std::ranges::count(simulation.policies, policy) > 0) {
      return UsageError(absl::StrCat("--policy names ", PolicyName(policy), " twice"));
    }
    simulation.policies.push_back(policy);
  }
  return simulation;
}

absl::StatusOr<DriveArguments> ReadDrive(const cli::Options& options) {
  if (options.policy.has_value() || options.csv) {
    return UsageError(absl::StrCat("--", options.csv ? "csv" : "policy", " needs --simulate"));
  }
  if (!options.pool.has_value() || options.pool->empty()) {
    return UsageError("replay needs --pool, or --simulate");
  }
  DriveArguments drive{.pool = *options.pool,
                       .workers = options.workers.value_or(1),
                       .speed = options.speed.value_or(0)};
  if (drive.workers < 1 || drive.workers > DriveArguments::kMaxWorkers) {
    return UsageError(
        absl::StrCat("--workers is ", drive.workers, ", not 1 to ", DriveArguments::kMaxWorkers));
  }
  if (!(drive.speed >= 0 && drive.speed <= DriveArguments::kMaxSpeed)) {
    return UsageError(
        absl::StrCat("--speed is ", drive.speed, ", not 0 to ", DriveArguments::kMaxSpeed));
  }
  if (options.capacity.has_value()) {
    KVPOOL_ASSIGN_OR_RETURN(drive.capacity, ReadCapacity(*options.capacity));
  }
  return drive;
}

}  // namespace

absl::StatusOr<ReplayArguments> ReplayArguments::Read(const cli::Options& options) {
  ReplayArguments arguments;
  KVPOOL_ASSIGN_OR_RETURN(arguments.format, ReadFormat(options.block_tokens));
  if (options.done > 100)
    return UsageError(absl::StrCat("--done is ", options.done, ", not 0-100"));
  arguments.done_percent = options.done;
  if (options.simulate) {
    KVPOOL_ASSIGN_OR_RETURN(arguments.simulation, ReadSimulation(options));
  } else {
    KVPOOL_ASSIGN_OR_RETURN(arguments.drive, ReadDrive(options));
  }
  return arguments;
}

}  // namespace kvpool::replay
