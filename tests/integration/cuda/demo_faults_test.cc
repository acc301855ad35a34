// The demo, with each call of the driver failing once in a run of its own: first in its workers,
// then in the daemon.
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "tests/integration/demo/demo_run.h"
#include "tests/integration/support/node.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"
#include "tests/support/sanitizer.h"

namespace kvpool::test {
namespace {

// One block, so that a run is short.
const std::string kText = "sixteen tokens..";

// "call:number", of the calls that a log of the fake driver tells of: the first two of each name,
// and its last; fewer where they take long.
std::vector<std::string> CallsOf(const std::string& log) {
  std::map<std::string, int> counts;
  std::ifstream lines(log);
  std::string call;
  for (int result = 0; lines >> call >> result;) {
    REQUIRE(result == 0);
    ++counts[call];
  }
  CHECK(counts.size() > 10);
  std::vector<std::string> calls;
  for (const auto& [name, count] : counts) {
    for (const int number : std::set<int>{1, 2, count}) {
      if (number <= count) calls.push_back(absl::StrCat(name, ":", number));
    }
  }
  if (!kIsSanitized) return calls;
  std::vector<std::string> some;
  for (size_t i = 0; i < calls.size(); i += 6) some.push_back(calls[i]);
  return some;
}

// The result is of one call alone.
std::string Fails(const std::string& call) { return absl::StrCat("FAKECUDA_FAIL=", call, ":1"); }

// Whether `text` says which call it was: lookups say what was looked for.
bool Names(const std::string& text, const std::string& call) {
  const std::string name = call.substr(0, call.find(':'));
  return absl::StrContains(text, name == "cuGetProcAddress" ? "cu" : name);
}

// Nobody holds anything in the pool "llama", and all of it can be had.
void CheckNothingIsHeld(Node& node) {
  REQUIRE(Said(node.eyes().ResetPrefixes("llama")) == "OK");
  CHECK(Eventually([&node] { return node.Pool("llama").free_blocks() == 64; }));
  node.CheckCounts();
}

TEST_CASE(
    "Whichever call of the driver fails in a worker of the demo, it says which, and no block "
    "is lost") {
  Node node(LlamaPool());
  const std::string log = node.daemon().directory().File("calls");
  const DemoRun clean =
      RunDemo(node.daemon(), {.text = kText, .environment = {"FAKECUDA_LOG=" + log}});
  INFO(clean.out << clean.err);
  REQUIRE(clean.code == 0);
  CheckNothingIsHeld(node);
  int failures = 0;
  for (const std::string& call : CallsOf(log)) {
    const DemoRun run = RunDemo(node.daemon(), {.text = kText, .environment = {Fails(call)}});
    CAPTURE(call, run.code, run.err);
    if (run.code != 0) {
      ++failures;
      CHECK(run.code == 1);
      // The worker says it before it ends by itself.
      CHECK((absl::StrContains(run.err, "kvpool_demo prefill: ") ||
             absl::StrContains(run.err, "kvpool_demo decode: ") ||
             absl::StrContains(run.err, "kvpool_demo victim: ")));
      CHECK(Names(run.err, call));
    }
    CheckNothingIsHeld(node);
  }
  CHECK(failures > 0);
  node.CheckAllIsBack();
}

TEST_CASE(
    "Whichever call of the driver fails in the daemon of the demo, it says which, and goes on "
    "or ends in order") {
  std::string log;
  std::vector<std::string> calls;
  {
    DaemonProcess::Options options = LlamaPool();
    const TempDir directory;
    log = directory.File("calls");
    options.environment = {"FAKECUDA_LOG=" + log};
    DaemonProcess daemon(std::move(options));
    const DemoRun clean = RunDemo(daemon, {.text = kText});
    INFO(clean.out << clean.err);
    REQUIRE(clean.code == 0);
    REQUIRE(daemon.Stop() == 0);
    calls = CallsOf(log);
  }
  int failures = 0;
  for (const std::string& call : calls) {
    DaemonProcess::Options options = LlamaPool();
    options.environment = {Fails(call)};
    options.flags = {"--memory_wait=1s"};
    options.wait_until_serving = false;
    DaemonProcess daemon(std::move(options));
    CAPTURE(call);
    REQUIRE(Eventually([&daemon] {
      return !daemon.process().IsRunning() || absl::StrContains(daemon.Log(), "event=serving");
    }));
    if (!daemon.process().IsRunning()) {
      ++failures;
      CHECK(daemon.process().Wait() == 1);
      CHECK(Names(daemon.Log(), call));
      continue;
    }
    const DemoRun run = RunDemo(daemon, {.text = kText});
    CAPTURE(run.code, run.err);
    if (run.code != 0) {
      ++failures;
      CHECK(run.code == 1);
      CHECK(Names(run.err, call));
    }
    CHECK(daemon.Stop() == 0);
  }
  CHECK(failures > 0);
}

}  // namespace
}  // namespace kvpool::test
