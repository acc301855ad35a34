#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "client/client.h"
#include "tests/integration/churn/mailbox.h"
#include "tests/support/random.h"

namespace kvpool::test {

// A worker that opens a session, takes blocks, stamps them with what nobody else writes, hands
// them over, takes what others hand over, and looks, as long as it holds a block, whether the stamp
// is still there. Not thread-safe.
class Churner {
 public:
  struct Options {
    std::string socket;
    std::string directory;  // Of the mailboxes.
    uint32_t number = 0;    // Its own, of so many.
    uint32_t worker_count = 0;
    uint64_t seed = 0;  // No other worker's, at any time.
  };
  // How its life ended, which is its process's exit code too.
  enum class End : int { kClosed = 0, kMismatch = 1, kError = 2, kLeft = 3 };
  struct Counts {
    uint64_t stamped = 0;
    uint64_t taken = 0;
  };

  explicit Churner(Options options);

  // Lives for a random number of steps. kLeft asks to end the process without closing anything.
  End Live();

  const Counts& counts() const { return counts_; }

 private:
  struct Held {
    client::BlockLease lease;
    uint64_t stamp = 0;
  };

  absl::Status OpenSession(client::Client& client);
  absl::Status Step();
  absl::Status Take();
  absl::Status Stamp();
  absl::Status Release();
  // DATA_LOSS where a held block does not have its stamp.
  absl::Status Verify(BlockId block, uint64_t stamp) const;
  // DATA_LOSS where the block is not zero all over.
  absl::Status VerifyZero(BlockId block) const;

  const Options options_;
  Random random_;
  Mailbox mailbox_;
  std::unique_ptr<client::Session> session_;
  std::optional<client::Mapping> mapping_;
  std::vector<Held> held_;
  uint64_t next_stamp_;
  Counts counts_;
};

}  // namespace kvpool::test
