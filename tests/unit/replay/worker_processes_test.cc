#include "client/cli/replay/worker_processes.h"

#include <signal.h>
#include <unistd.h>

#include <string>

#include "tests/support/catch.h"

namespace kvpool::replay {
namespace {

TEST_CASE("Workers wait for each other, and each one's end is known") {
  auto board = Board::Create(2, 2);
  REQUIRE(board.ok());
  auto workers = WorkerProcesses::Start(
      2, *board, [&board](uint32_t worker, const std::function<void()>& wait) {
        board->results()[worker].hit_blocks = 1;
        wait();
        board->results()[worker].published_blocks = board->results()[1 - worker].hit_blocks;
        wait();
        return absl::OkStatus();
      });
  REQUIRE(workers.ok());
  for (int i = 0; i < 2; ++i) {
    REQUIRE(workers->WaitUntilReady().ok());
    workers->GoOn();
  }
  CHECK(workers->Join().ok());
  for (const RequestResult& result : board->results()) CHECK(result.published_blocks == 1);
}

TEST_CASE("A worker that fails, or dies, is named while others work on") {
  auto board = Board::Create(1, 3);
  REQUIRE(board.ok());
  const bool dies = GENERATE(false, true);
  CAPTURE(dies);
  auto workers = WorkerProcesses::Start(
      3, *board, [dies](uint32_t worker, const std::function<void()>& wait) -> absl::Status {
        if (worker == 2) wait();
        if (worker == 1 && !dies) return absl::NotFoundError("no such pool");
        if (worker == 1) raise(SIGKILL);
        alarm(30);  // Works for longer than anybody waits for it.
        while (true) pause();
      });
  REQUIRE(workers.ok());
  const absl::Status status = workers->WaitUntilReady();
  CHECK(status.ToString() ==
        (dies ? "INTERNAL: worker 1 was ended by signal 9" : "NOT_FOUND: worker 1: no such pool"));
}

}  // namespace
}  // namespace kvpool::replay
