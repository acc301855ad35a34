#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/client.h"
#include "core/error.h"
#include "tests/simulation/action.h"
#include "tests/simulation/fiber_runtime.h"
#include "tests/simulation/link.h"
#include "tests/simulation/transport.h"

namespace kvpool::simulation {

class Worker;

// What workers of one world share without the daemon.
struct Board {
  struct Offer {
    std::string tenant;
    BlockRef block;
    const Worker* from = nullptr;
  };
  std::deque<Offer> offers;  // The latest few.
  uint32_t last_write = 0;
};

// One worker's process: it does what it is told by the client library, as a worker that keeps to
// the API's rules does, and checks what comes back. Its device's kernels write later, stopped or
// dead as it may be, until the process is gone.
class Worker {
 public:
  // All outlive it.
  Worker(Scheduler& scheduler, Network& network, Board& board, const std::string& tenant,
         uint64_t seed);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void Post(const Action& action);
  // Ends what is posted, gives all back, and ends.
  void Finish();

  void Kill(Duration until_gone);
  void Stop();
  void Continue() { process_.Continue(); }
  void Break(Duration delay) { link_.Break(delay); }
  void DaemonStops() { link_.BreakByDaemon(); }

  bool is_dead() const { return process_.is_dead(); }
  // Nothing of it runs any more.
  bool is_done() const { return has_ended_ && !process_.has_fibers(); }
  // Waits for something to do.
  bool is_idle() const { return idle_ != nullptr; }
  // Its session, as far as it knows; absent where it knows of none that lives.
  std::optional<SessionId> session() const;
  // Fails where the worker takes its session for alive and it is not, or the other way round.
  void CheckKnowledge();

 private:
  struct Held {
    client::BlockLease lease;
    Stamp stamp{};                 // What it wrote last.
    bool is_frozen = false;        // Others may read it, or publish it.
    const Worker* from = nullptr;  // Who wrote it and offered it, if that was another.
  };
  struct Sequence {
    std::vector<uint32_t> tokens{};
    std::vector<Held> blocks{};
    uint32_t matched = 0;  // The first ones, which others published.
    bool is_published = false;
  };
  // What is known of the session before a call.
  struct Before {
    TimePoint time;
    bool is_over = false;
    uint32_t stop_count = 0;
  };

  void Run();
  void Do(const Action& action);
  bool EnsureSession();
  void Recover();
  void Close();

  void Alloc();
  void Admit();
  void Find();
  void Peek();
  void Write();
  void Publish();
  // A block that another wrote and has done with, or can have done nothing more to: it is dead.
  bool PublishTaken();
  void Release();
  void Offer();
  void Take();
  void Evict();

  void StartWrite(Held& held, uint32_t prefix);
  // Waits until no kernel of its writes any more.
  void Quiesce();
  void CheckReferences();
  void CheckFound(const std::vector<uint32_t>& tokens, std::span<const client::BlockLease> blocks);

  Before BeforeCall() const;
  // Judges a call's answer. `is_effect`: without one, nobody knows whether it had its effect.
  void Judge(const char* call, const Before& before, const absl::Status& status,
             std::initializer_list<Reason> allowed, bool is_effect = true);
  void CheckTime(const char* call, const Before& before, Duration wait);

  std::vector<uint32_t> SomeTokens(uint32_t min_count);
  uint32_t PrefixOf(const std::vector<uint32_t>& tokens, size_t count) const;
  Duration SomeWait();
  Oracle* oracle() const;
  bool is_over() const;
  void Fail(const std::string& what);

  Network& network_;
  Board& board_;
  const std::string tenant_;
  Process process_;
  FiberRuntime runtime_{process_};
  Link link_;
  std::shared_ptr<Transport> transport_;
  test::Random random_{0};  // Of the action.

  std::deque<Action> queue_;
  bool must_finish_ = false;
  bool has_ended_ = false;
  WaitPtr idle_;

  std::optional<client::Client> client_;
  std::unique_ptr<client::Session> session_;
  uint64_t epoch_ = 0;  // Of the session's daemon.
  uint32_t breaks_at_open_ = 0;
  bool is_certain_ = true;  // Each call so far is known to have had its effect, or none.
  bool has_seen_unknown_ = false;
  int lost_count_ = 0;
  std::vector<Sequence> sequences_;
  std::vector<Held> loose_;

  uint32_t pending_writes_ = 0;
  WaitPtr quiescing_;
  bool is_gone_ = false;
};

}  // namespace kvpool::simulation
