#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "core/ids.h"
#include "core/ledger/prefix/prefix_key.h"

namespace kvpool {

// What those who watch prefixes ask for and are told, as `kvpool.v1.InspectService.WatchPrefixes`
// says. Values.

// Somebody who watches. Not reused.
enum class WatchId : uint64_t {};

struct WatchCall {
  std::optional<absl::string_view> tenant{};  // Whose prefixes. Absent: everybody's.
  // Goes on after that change, where the ledger still has all that came after it; else, or where
  // it is absent, begins with a snapshot.
  std::optional<uint64_t> after{};
  bool with_tokens = false;
};

struct PrefixEvent {
  enum class Kind : uint8_t {
    kStored,
    kRemoved,
    kCleared,      // Of `tenant`, or where that is absent of all.
    kSnapshotEnd,  // The snapshot is complete.
    kResync,       // Changes were lost, from the next on. Nothing follows.
  };

  Kind kind{};
  // Of the change; of several keys, of the last of them. 0: of a snapshot's.
  uint64_t sequence = 0;
  // Stored: a run, in which each comes after the one before, and the first after `parent`.
  std::vector<PrefixKey> keys{};
  std::vector<BlockRef> blocks{};
  std::optional<PrefixKey> parent{};
  std::optional<std::string> tenant{};  // Of a stored or cleared one.
  std::string model_id{};
  std::string adapter{};
  // Of all the blocks or of none.
  std::vector<uint32_t> tokens{};
};

enum class WatchProgress : uint8_t {
  kMore,      // There is more to read.
  kCaughtUp,  // There is not; a WatchReady event says when there is.
  kOver,      // A kResync was read: there will be no more.
};

}  // namespace kvpool
