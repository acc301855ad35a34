#include <string>

#include "tests/bench/system/echo_process.h"
#include "tests/bench/system/report.h"
#include "tests/bench/system/samples.h"
#include "tests/bench/system/scenarios.h"
#include "tests/bench/system/worker.h"
#include "tests/support/daemon_process.h"

namespace kvpool::bench {
namespace {

constexpr int kWarmUpCalls = 500;
constexpr int kRestarts = 10;
constexpr int kRounds = 20;
constexpr int kCallsARound = 100;
// The bytes of an Alloc's request: the session's id and a count.
constexpr size_t kEchoBytes = 38;

constexpr char kPool[] =
    R"([{"name": "bench", "numLayers": 1, "numKvHeads": 1, "headDim": 16, "numBlocks": 100000}])";

struct Figures {
  Samples echo, alloc, dec_ref, alloc_256, dec_ref_256;
};

void Measure(EchoProcess& echo, RawSession& session, Figures& figures) {
  for (int i = 0; i < kWarmUpCalls; ++i) {
    echo.Call(kEchoBytes);
    session.DecRef(session.Alloc(1));
  }
  // The kinds take turns, so that what the machine does meanwhile falls on all alike.
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kCallsARound; ++i) {
      figures.echo.Add(Time([&] { echo.Call(kEchoBytes); }));
    }
    for (int i = 0; i < kCallsARound; ++i) {
      v1::Blocks blocks;
      figures.alloc.Add(Time([&] { blocks = session.Alloc(1); }));
      figures.dec_ref.Add(Time([&] { session.DecRef(blocks); }));
    }
    for (int i = 0; i < kCallsARound; ++i) {
      v1::Blocks blocks;
      figures.alloc_256.Add(Time([&] { blocks = session.Alloc(256); }));
      figures.dec_ref_256.Add(Time([&] { session.DecRef(blocks); }));
    }
  }
}

}  // namespace

void RunUnary() {
  Figures figures;
  for (int restart = 0; restart < kRestarts; ++restart) {
    EchoProcess echo;
    test::DaemonProcess daemon({.pools_json = kPool});
    RawSession session(daemon.Connect(daemon.worker_socket()), "bench");
    Measure(echo, session, figures);
  }
  const double echo = figures.echo.Median();
  const double alloc = figures.alloc.Median();
  const double dec_ref = figures.dec_ref.Median();
  Report("1", "unary Alloc(1), p50", Microseconds(alloc), "echo " + Microseconds(echo),
         alloc / echo);
  Report("1", "unary DecRef(1), p50", Microseconds(dec_ref), "echo " + Microseconds(echo),
         dec_ref / echo);
  const double batch = figures.alloc_256.Median() + figures.dec_ref_256.Median();
  Report("3", "Alloc(256) + DecRef(256), p50", Microseconds(batch),
         "Alloc(1) + DecRef(1) " + Microseconds(alloc + dec_ref), batch / (alloc + dec_ref));
}

}  // namespace kvpool::bench
