#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "client/cli/replay/board.h"
#include "client/cli/replay/trace.h"
#include "client/client.h"

namespace kvpool::replay {

// What every worker of a replay works by. What it refers to outlives them.
struct WorkerPlan {
  const Trace& trace;
  const std::vector<bool>& is_done;
  uint32_t block_tokens = 0;
  std::string socket{};
  std::string pool{};
  Duration timeout{};  // Of a call.
  uint32_t workers = 1;
  double speed = 0;                    // 0: as fast as it goes.
  std::optional<uint32_t> capacity{};  // Blocks to leave cached.
};

// ReplayWorker is one process's part of a replay: it takes requests from the board, one after the
// other, and makes their calls in a session of its own.
//
// With a capacity it holds its share of what the pool has beyond it. A request's blocks come out
// of that share, and when it is over the share is made whole again, in the step that lets the
// request's blocks go: evictions make room for it as they do in Simulation. Not thread-safe.
class ReplayWorker {
 public:
  // Opens the session, and takes the share. Errors: those of Client and OpenSession;
  // FAILED_PRECONDITION, the pool, or the share of a worker, has no room for the longest request.
  static absl::StatusOr<ReplayWorker> Open(const WorkerPlan& plan, uint32_t worker, Board& board);

  // Takes requests until none is left. The first error of a call that is no lack of room ends it.
  absl::Status Run();
  // Closes the session. Nothing is to be called after it.
  absl::Status Close();

 private:
  ReplayWorker(const WorkerPlan& plan, Board& board, std::unique_ptr<client::Session> session)
      : plan_(plan), board_(board), session_(std::move(session)) {}

  // The blocks that the request takes, those of its output included.
  uint32_t CountBlocks(const TraceRequest& request) const;
  absl::Status TakeShare(uint32_t worker);
  // False where a worker has failed meanwhile.
  bool WaitFor(const TraceRequest& request) const;
  absl::Status Serve(const TraceRequest& request, bool is_done, RequestResult& result);
  absl::Status Publish(const client::Prefix& prefix, const client::AcquiredBlocks& acquired,
                       RequestResult& result);
  // Lets a request's blocks go, and makes the share whole again.
  absl::Status Release(std::vector<client::BlockLease> blocks, bool is_done);

  const WorkerPlan& plan_;
  Board& board_;
  std::unique_ptr<client::Session> session_;
  std::vector<client::BlockLease> share_;
  size_t share_size_ = 0;  // When it is whole.
};

}  // namespace kvpool::replay
