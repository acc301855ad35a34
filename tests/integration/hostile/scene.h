#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/hostile/hostile.h"
#include "tests/integration/hostile/witness.h"
#include "tests/integration/support/node.h"

namespace kvpool::test {

// A daemon whose worker socket every uid can reach, with two pools of 64 blocks: "p", which is for
// everybody, and "closed", which is for this process's tenant; and a witness in each. Not
// thread-safe.
class Scene {
 public:
  static constexpr uint32_t kBlocks = 64;

  explicit Scene(std::vector<std::string> flags = {});

  Node& node() { return node_; }
  std::string socket() { return node_.daemon().worker_socket(); }
  Witness& in_open_pool() { return *in_open_pool_; }
  Witness& in_closed_pool() { return *in_closed_pool_; }

  // Gives `hostile` a command and waits for its answer, the witnesses working meanwhile.
  std::string AskMeanwhile(Hostile& hostile, const std::string& command);

  // Waits until the witnesses are alone: nobody else has a session in "p", waits, or has blocks.
  bool BecomeQuiet();

  // Whether a round comes to leave no memory behind in the daemon, after some that make it grow
  // once: buffers, tables, the heap's holes. From then on CheckLast counts the memory. A round must
  // be of thousands, so that a leak of each is seen. Sanitizers keep what is freed: one round,
  // true.
  bool StopsGrowing(const std::function<void()>& round);

  // Checks what nobody may do harm to: the daemon lives, the witnesses work on, the counts add up,
  // and the log is what the daemon wrote. Requires that no call of others is running.
  void Check();

  // Checks the same, ends the witnesses, and checks that all is back.
  void CheckLast();

 private:
  Node node_;
  std::optional<Witness> in_open_pool_;
  std::optional<Witness> in_closed_pool_;
};

// Checks that each line of a daemon's log is one: a time, a level, an event, printable.
void CheckLog(const std::string& log);

}  // namespace kvpool::test
