#include "client/cli/replay/board.h"

#include <signal.h>

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "client/cli/replay/worker_processes.h"
#include "tests/support/catch.h"

namespace kvpool::replay {

TEST_CASE("A board gives each request out once, in order") {
  auto board = Board::Create(/*request_count=*/3, /*worker_count=*/1);
  REQUIRE(board.ok());
  for (size_t i = 0; i < 3; ++i) CHECK(board->TakeRequest() == i);
  CHECK_FALSE(board->TakeRequest().has_value());
  CHECK_FALSE(Board::Create(0, 1)->TakeRequest().has_value());
}

TEST_CASE("A board gives nothing out once a worker has failed, and tells why it did") {
  auto board = Board::Create(3, 2);
  REQUIRE(board.ok());
  CHECK(board->StatusOf(1).ok());
  CHECK_FALSE(board->has_failed());
  board->Fail(1, absl::NotFoundError("no such pool"));
  CHECK(board->has_failed());
  CHECK_FALSE(board->TakeRequest().has_value());
  CHECK(board->StatusOf(0).ok());
  CHECK(board->StatusOf(1) == absl::NotFoundError("no such pool"));
  board->Fail(0, absl::InternalError(std::string(600, 'x')));
  CHECK(board->StatusOf(0) == absl::InternalError(std::string(Board::kMaxMessageBytes, 'x')));
}

TEST_CASE("A board keeps a time, and goes where it is moved") {
  auto made = Board::Create(1, 1);
  REQUIRE(made.ok());
  Board board = *std::move(made);
  const auto begin = std::chrono::steady_clock::now();
  board.SetBegin(begin);
  CHECK(board.begin() == begin);
  CHECK(board.results().size() == 1);
  CHECK(board.results()[0].state == RequestResult::State::kNotRun);
  CHECK(board.results()[0].acquire_ns == -1);
}

TEST_CASE("Worker processes share a board, and begin when they are told to") {
  auto board = Board::Create(/*request_count=*/1'000, /*worker_count=*/4);
  REQUIRE(board.ok());
  auto workers = WorkerProcesses::Start(4, *board, [&](uint32_t /*worker*/, const auto& wait) {
    wait();
    if (board->begin() == std::chrono::steady_clock::time_point{}) {
      return absl::InternalError("it began too early");
    }
    while (const auto request = board->TakeRequest()) {
      board->results()[*request].hit_blocks += 1;
    }
    wait();
    return absl::OkStatus();
  });
  REQUIRE(workers.ok());
  REQUIRE(workers->WaitUntilReady().ok());
  board->SetBegin(std::chrono::steady_clock::now());
  workers->GoOn();
  REQUIRE(workers->WaitUntilReady().ok());
  CHECK_FALSE(board->TakeRequest().has_value());
  workers->GoOn();
  CHECK(workers->Join().ok());
  for (const RequestResult& result : board->results()) REQUIRE(result.hit_blocks == 1);
}

TEST_CASE("A worker process that fails, or dies, is named") {
  for (const uint32_t broken : {0U, 2U}) {
    for (const bool is_killed : {false, true}) {
      for (const bool is_ready_first : {false, true}) {
        auto board = Board::Create(1, 3);
        REQUIRE(board.ok());
        auto workers = WorkerProcesses::Start(3, *board, [&](uint32_t worker, const auto& wait) {
          if (worker != broken || is_ready_first) wait();
          if (worker != broken) return absl::OkStatus();
          if (is_killed) raise(SIGKILL);
          return absl::NotFoundError("no such pool");
        });
        REQUIRE(workers.ok());
        absl::Status status = workers->WaitUntilReady();
        CHECK(status.ok() == is_ready_first);
        if (status.ok()) {
          workers->GoOn();
          status = workers->Join();
        }
        CHECK(status ==
              (is_killed
                   ? absl::InternalError(absl::StrCat("worker ", broken, " was ended by signal 9"))
                   : absl::NotFoundError(absl::StrCat("worker ", broken, ": no such pool"))));
      }
    }
  }
}

}  // namespace kvpool::replay
