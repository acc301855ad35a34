// A worker that forks: fork_helper SOCKET. Prints what went wrong, or "ok". Its child runs to its
// ordinary end, with every destructor and exit handler.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"

#include "client/client.h"

namespace {

bool is_child = false;
int failures = 0;

void Expect(bool holds, const char* what) {
  if (holds) return;
  ++failures;
  std::printf("%s: %s\n", is_child ? "child" : "parent", what);
}

}  // namespace

// The leak checker stops threads that a forked child does not have, and what a child leaves alone
// it would call leaked.
extern "C" int __lsan_is_turned_off() { return is_child ? 1 : 0; }  // NOLINT

namespace kvpool::client {
namespace {

struct Worker {
  Client client;
  std::unique_ptr<Session> session;
  std::vector<BlockLease> leases;
  std::unique_ptr<Mapping> mapping;
  std::unique_ptr<KeptSession> kept;
};

void CheckInChild(Worker& worker, const std::string& socket) {
  Session& session = *worker.session;
  const std::vector<BlockRef> refs = {worker.leases[0].ref()};
  const auto is_refused = [](const absl::Status& status) {
    return absl::IsFailedPrecondition(status);
  };
  Expect(!session.alive(), "the session is alive");
  Expect(is_refused(session.status()), "status");
  Expect(is_refused(session.Alloc(1).status()), "Alloc");
  Expect(is_refused(session.Alloc(1, {.release = worker.leases}).status()), "Alloc, release");
  Expect(is_refused(session.IncRef(refs).status()), "IncRef");
  Expect(is_refused(session.Publish({}, refs).status()), "Publish");
  Expect(is_refused(session.Lookup({}).status()), "Lookup");
  Expect(is_refused(session.Peek({}).status()), "Peek");
  Expect(is_refused(session.Acquire({}, 1).status()), "Acquire");
  Expect(is_refused(session.Evict(refs).status()), "Evict");
  Expect(is_refused(session.EvictNext(1).status()), "EvictNext");
  Expect(is_refused(session.Done(worker.leases)), "Done");
  Expect(is_refused(session.Flush()), "Flush");
  Expect(is_refused(session.FillBlocks(refs, Fill::kZero)), "FillBlocks");
  Expect(is_refused(session.CopyBlocks(refs, refs)), "CopyBlocks");
  Expect(is_refused(
             session.ReadBlocks(refs, {}, 0, [](const BlockPiece&) { return absl::OkStatus(); })),
         "ReadBlocks");
  Expect(is_refused(session.WriteBlocks({})), "WriteBlocks");
  Expect(is_refused(session.Map().status()), "Map");
  Expect(is_refused(session.Close()), "Close");
  Expect(is_refused(worker.client.OpenSession({.pool = "p"}).status()), "OpenSession");
  Expect(is_refused(worker.client.KeepSession({.session = {.pool = "p"}}).status()), "KeepSession");
  Expect(is_refused(worker.kept->Current(std::chrono::hours(1)).status()), "Current");
  Expect(is_refused(worker.kept->Close()), "Close of a kept session");
  Expect(is_refused(Client::Create({.socket = socket}).status()), "Create");
  Expect(is_refused(worker.leases[0].Release()), "Release");
  const BlockLease fork = worker.leases[1].Fork();
  Expect(fork.ref() == worker.leases[1].ref(), "a fork of a lease");
}

// Forks again and again while another thread takes and gives back blocks, so that some child finds
// a mutex held that nobody will ever give back.
void ForkUnderLoad(Session& session) {
  std::atomic<bool> is_over = false;
  std::jthread churn([&] {
    while (!is_over) Expect(session.Alloc(1).ok(), "Alloc under load");
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      const bool refused = absl::IsFailedPrecondition(session.Alloc(1).status()) &&
                           absl::IsFailedPrecondition(session.Flush()) && !session.alive();
      _exit(refused ? 0 : 1);
    }
    int state = 0;
    Expect(waitpid(child, &state, 0) == child && state == 0, "a child under load");
  }
  is_over = true;
}

int Run(const std::string& socket) {
  auto client = Client::Create({.socket = socket}).value();
  auto session = client.OpenSession({.pool = "p"}).value();
  auto leases = session->Alloc(3).value();
  auto mapping = std::make_unique<Mapping>(session->Map().value());
  auto kept = client.KeepSession({.session = {.pool = "p"}}).value();
  Worker worker{std::move(client), std::move(session), std::move(leases), std::move(mapping),
                std::move(kept)};

  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    is_child = true;
    alarm(20);  // A child that hangs fails.
    CheckInChild(worker, socket);
    return failures;  // Destroys the worker, then runs the exit handlers.
  }
  int state = 0;
  Expect(waitpid(child, &state, 0) == child && state == 0, "the child failed");

  Expect(worker.session->alive(), "the session is not alive");
  worker.mapping->mutable_k(0, worker.leases[0].id())[0] = std::byte{1};
  Expect(worker.session->Alloc(1).ok(), "Alloc");
  ForkUnderLoad(*worker.session);
  worker.leases.pop_back();
  Expect(worker.session->Flush().ok(), "Flush");
  Expect(worker.session->alive(), "the session is not alive in the end");
  Expect(worker.session->Close().ok(), "Close");
  Expect(worker.kept->Current().ok(), "Current");
  Expect(worker.kept->Close().ok(), "Close of the kept session");
  std::puts(failures == 0 ? "ok" : "failed");
  return failures;
}

}  // namespace
}  // namespace kvpool::client

int main(int argc, char** argv) { return argc == 2 ? kvpool::client::Run(argv[1]) : 2; }
