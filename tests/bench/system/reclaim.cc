#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "core/check.h"
#include "tests/bench/system/echo_process.h"
#include "tests/bench/system/report.h"
#include "tests/bench/system/samples.h"
#include "tests/bench/system/scenarios.h"
#include "tests/bench/system/worker.h"
#include "tests/support/child_process.h"
#include "tests/support/daemon_process.h"

namespace kvpool::bench {
namespace {

constexpr uint32_t kBatch = 62'500;  // 16 of them are 10^6; under the limit of a call.
constexpr int64_t kWaitSeconds = 30;
constexpr size_t kEchoBytes = 38;  // As small as a call on one block.
constexpr int kWarmUps = 5;        // Touches before a kill.

std::string PoolJson(uint32_t blocks) {
  return R"([{"name": "reclaim", "numLayers": 1, "blockSize": 1, "dtype": "raw",)"
         R"( "rawTokenBytes": 16, "numBlocks": )" +
         std::to_string(blocks) + "}]";
}

void WaitUntilGone(int pidfd) {
  pollfd entry{.fd = pidfd, .events = POLLIN, .revents = 0};
  while (poll(&entry, 1, -1) < 1) {
  }
}

// Two calls of another session, and two of a bare echo server, which shows what the machine does.
struct Touches {
  Samples session, echo;
};

// Makes such calls, and times them until told to stop.
class Bystander {
 public:
  explicit Bystander(RawSession& session) : session_(session), block_(session.Alloc(1)) {}

  Touches Usual(int calls) {
    Touches touches;
    for (int i = 0; i < calls; ++i) Touch(touches);
    return touches;
  }
  // Returns when it is at it: what happens next falls on either kind of call.
  void Start() {
    stop_ = false;
    is_warm_ = false;
    thread_ = std::jthread([this] {
      Touches ignored;
      for (int i = 0; i < kWarmUps; ++i) Touch(ignored);
      is_warm_ = true;
      is_warm_.notify_one();
      while (!stop_) Touch(meanwhile_);
    });
    is_warm_.wait(false);
  }
  void Stop() {
    stop_ = true;
    thread_ = {};
  }
  const Touches& meanwhile() const { return meanwhile_; }

 private:
  void Touch(Touches& touches) {
    touches.session.Add(Time([&] {
      session_.IncRef(block_);
      session_.DecRef(block_);
    }));
    touches.echo.Add(Time([&] {
      echo_.Call(kEchoBytes);
      echo_.Call(kEchoBytes);
    }));
  }

  EchoProcess echo_;
  RawSession& session_;
  const v1::Blocks block_;
  std::atomic<bool> is_warm_ = false;
  std::atomic<bool> stop_ = false;
  Touches meanwhile_;
  std::jthread thread_;
};

void ReportMeanwhile(const std::string& what, const Samples& meanwhile, const Samples& usual) {
  const double figure = meanwhile.Percentile(99);
  const double usual_figure = usual.Percentile(99);
  Report("14", what + " meanwhile, p99", Microseconds(figure),
         "usual " + Microseconds(usual_figure), figure / usual_figure);
}

void Measure(uint32_t count, int rounds, double limit_microseconds) {
  test::DaemonProcess daemon({.pools_json = PoolJson(count + 1)});
  RawSession waiting(daemon.Connect(daemon.worker_socket()), "reclaim");
  RawSession other(daemon.Connect(daemon.worker_socket()), "reclaim");
  Bystander bystander(other);
  const Touches usual = bystander.Usual(2'000);

  Samples reclaim;
  Samples kernel;
  for (int round = 0; round < rounds; ++round) {
    test::ChildProcess holder({.arguments = {"/proc/self/exe", "hold", daemon.worker_socket(),
                                             "reclaim", std::to_string(count)},
                               .environment = {},
                               .stderr_path = {},
                               .uid = {}});
    KVPOOL_CHECK(holder.ReadLine() == "holding");
    const auto pidfd = static_cast<int>(syscall(SYS_pidfd_open, holder.pid(), 0));
    KVPOOL_CHECK(pidfd >= 0);
    bystander.Start();
    std::chrono::steady_clock::time_point gone;
    std::jthread watcher([&] {
      WaitUntilGone(pidfd);
      gone = std::chrono::steady_clock::now();
    });
    const auto killed = std::chrono::steady_clock::now();
    holder.Signal(SIGKILL);
    std::vector<v1::Blocks> taken;
    for (uint32_t left = count; left > 0; left -= std::min(left, kBatch)) {
      taken.push_back(waiting.Alloc(std::min(left, kBatch), kWaitSeconds));
    }
    const auto given_out = std::chrono::steady_clock::now();
    watcher.join();
    bystander.Stop();
    reclaim.Add(std::chrono::duration<double, std::micro>(given_out - gone).count());
    kernel.Add(std::chrono::duration<double, std::micro>(gone - killed).count());
    for (const v1::Blocks& blocks : taken) waiting.DecRef(blocks);
    close(pidfd);
  }
  const std::string what = "kill -9 of a worker with " + std::to_string(count) + " references";
  Report("14", what + ": its blocks given out again, p99", Microseconds(reclaim.Percentile(99)),
         Microseconds(limit_microseconds), reclaim.Percentile(99) / limit_microseconds);
  Report("14", what + ": the kernel's own share before, p50", Microseconds(kernel.Median()), "-",
         0);
  ReportMeanwhile(what + ": another's IncRef + DecRef", bystander.meanwhile().session,
                  usual.session);
  ReportMeanwhile(what + ": two bare echoes", bystander.meanwhile().echo, usual.echo);
}

}  // namespace

void RunReclaim() {
  Measure(/*count=*/1, /*rounds=*/100, /*limit_microseconds=*/10'000);
  Measure(/*count=*/1'000'000, /*rounds=*/20, /*limit_microseconds=*/100'000);
}

int HoldWorker(const char* socket, const char* pool, const char* count) {
  RawSession session(grpc::CreateChannel(socket, grpc::InsecureChannelCredentials()), pool);
  for (auto left = static_cast<uint32_t>(std::strtoul(count, nullptr, 10)); left > 0;
       left -= std::min(left, kBatch)) {
    session.Alloc(std::min(left, kBatch));
  }
  std::printf("holding\n");
  std::fflush(stdout);
  pause();
  return 0;
}

}  // namespace kvpool::bench
