#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/daemon_process.h"
#include "tests/support/raw_session.h"
#include "tests/support/sanitizer.h"

namespace kvpool::test {

// JSON of a small PoolSpec: 2 layers, 2 heads of 16, bf16, so that a side has 1,024 bytes a
// block. `more` is further fields, such as R"(, "max_blocks_per_tenant": 4)". On TestDevice(),
// unless they say another.
std::string PoolJson(const std::string& name, uint32_t num_blocks, const std::string& more = "");
// JSON of a list with that one pool, named "p".
std::string OnePool(uint32_t num_blocks, const std::string& more = "");

// The value of a call that must succeed.
template <typename T>
T Value(absl::StatusOr<T> result) {
  INFO(result.status());
  REQUIRE(result.ok());
  return *std::move(result);
}

// A real daemon, and eyes on it: what a case needs, and what is looked at after each. Not
// thread-safe.
class Node {
 public:
  // A pool "p" of that many blocks.
  explicit Node(uint32_t num_blocks) : Node({.pools_json = OnePool(num_blocks)}) {}
  explicit Node(DaemonProcess::Options options);
  // Ends the daemon by SIGTERM where CheckAllIsBack was called and it lives still, and checks that
  // it ends with 0: that it lost no memory, where it is built to look for that.
  ~Node();

  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  DaemonProcess& daemon() { return daemon_; }
  // The operator's connection, as old as the node.
  RawClient& eyes() { return *eyes_; }
  // A worker's connection of its own, until CheckAllIsBack.
  RawClient* Connect();

  // What the pool says of itself.
  v1::PoolStatus Pool(const std::string& name = "p");
  uint32_t FreeBlocks() { return Pool().free_blocks(); }
  // Waits until so many are free.
  bool BecomeFree(uint32_t count);
  // Waits until so many calls wait for room.
  bool BecomeWaiting(uint32_t count);

  // Checks what holds at any moment at which no call runs: each pool's counts are those of its
  // blocks, and its blocks' references are those of its sessions.
  void CheckCounts();

  // Checks what holds while others have blocks of the pool: one by one, exactly those that are
  // free or cached can be had, each once, none held or quarantined. Leaves them free.
  void CheckDrainBeside(const std::string& name = "p");

  // Takes the memory that the daemon has now for what it had at first: after what made it grow
  // once.
  void CountMemoryAgain() { before_.anonymous_bytes = Look().anonymous_bytes; }

  // Checks what holds after a case, when all that used the daemon has left. It ends the connections
  // that Connect made; no stream may be left on them. Then no session is open;
  // all blocks of each pool are free and can be had, each once; the daemon lives, and has no more
  // descriptors, threads, mappings and memory than before.
  void CheckAllIsBack();

 private:
  struct Footprint {
    size_t fds = 0;
    size_t threads = 0;
    size_t maps = 0;
    uint64_t anonymous_bytes = 0;
  };

  static DaemonProcess::Options NotWaiting(DaemonProcess::Options options);
  std::vector<v1::PoolStatus> Pools();
  void CheckPool(const v1::PoolStatus& pool);
  void CheckDrain(const v1::PoolStatus& pool);
  Footprint Look() const;
  bool IsBack(const Footprint& now);

  DaemonProcess daemon_;
  std::unique_ptr<RawClient> eyes_;
  std::unique_ptr<RawClient> hands_;  // A worker's connection, for CheckDrain.
  std::vector<std::unique_ptr<RawClient>> clients_;
  Footprint before_;
  bool is_back_ = false;  // CheckAllIsBack was called.
};

}  // namespace kvpool::test
