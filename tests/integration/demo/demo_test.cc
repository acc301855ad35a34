// The demo, on a short text: it succeeds, and a wrong byte makes it fail.
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "tests/integration/demo/demo_run.h"
#include "tests/integration/support/node.h"
#include "tests/integration/support/test_device.h"
#include "tests/support/catch.h"

namespace kvpool::test {
namespace {

// What the table of the demo says in the row of that name.
std::string Figure(const DemoRun& run, const std::string& row) {
  for (const absl::string_view line : absl::StrSplit(run.out, '\n')) {
    absl::string_view rest = absl::StripLeadingAsciiWhitespace(line);
    if (absl::ConsumePrefix(&rest, row + "  ")) {
      return std::string(absl::StripAsciiWhitespace(rest));
    }
  }
  return "(no such row)";
}

double Number(const DemoRun& run, const std::string& row) {
  double number = 0;
  const std::string figure = Figure(run, row);
  CAPTURE(row, figure);
  CHECK(absl::SimpleAtod(figure.substr(0, figure.find(' ')), &number));
  return number;
}

TEST_CASE("The demo shares KV between processes without a copy and gets a killed worker's back") {
  Node node(LlamaPool());
  const DemoRun run = RunDemo(node.daemon(), {});
  INFO(run.out << run.err);
  CHECK(run.code == 0);
  CHECK(absl::StrContains(
      run.out, "killed with SIGKILL; the pool has 0 held, 0 quarantined, 4 cached, 60 free"));

  CHECK(Figure(run, "blocks published by prefill") == "4");
  CHECK(Figure(run, "blocks reused by each decode worker") == "4");
  CHECK(Number(run, "bytes shared") == 4 * (2 << 20));
  CHECK(Figure(run, "bytes copied by the daemon for it") == "0");
  // A worker without kernels has to copy from a GPU, and says so.
  CHECK(absl::StrContains(run.out, "ran attention in place") == TestDevice().empty());
  CHECK(absl::StrContains(run.out, "bytes from the GPU") != TestDevice().empty());
  // 32 layers of 32.
  CHECK(Figure(run, "attention heads checked") == "1024");
  // Of bf16 the error is never none.
  CHECK(Number(run, "largest relative error") > 0);
  CHECK(Number(run, "largest relative error") <= 1e-3);
  // Opening, attaching, allocating or taking, giving back at most each apart, closing: none is for
  // the bytes.
  for (const std::string row : {"calls made by prefill", "calls made by decode"}) {
    CHECK(Number(run, row) >= 4);
    CHECK(Number(run, row) <= 12);
  }
  CHECK(Figure(run, "blocks of the killed worker") == "16");
  CHECK(Number(run, "time to reclaim them, from its end") > 0);
  CHECK(Said(node.eyes().ResetPrefixes("llama")) == "OK");
  node.CheckAllIsBack();
}

TEST_CASE("The demo fails where one byte of the KV is wrong") {
  Node node(LlamaPool());
  const DemoRun run = RunDemo(node.daemon(), {.flags = {"--flip_byte"}});
  INFO(run.out << run.err);
  CHECK(run.code == 1);
  CHECK(absl::StrContains(run.err, "attention over the shared blocks is off by"));
  CHECK(Said(node.eyes().ResetPrefixes("llama")) == "OK");
  node.CheckAllIsBack();
}

TEST_CASE("The demo says what it lacks, as kvpoolctl does") {
  Node node(LlamaPool());
  const auto refused = [&node](const std::vector<std::string>& flags, int code,
                               const std::string& said) {
    const DemoRun run = RunDemo(node.daemon(), {.flags = flags});
    INFO(run.out << run.err);
    CHECK(run.code == code);
    CHECK(absl::StrContains(run.err, said));
    CHECK(run.out.empty());
  };
  const std::string nowhere = "unix:" + node.daemon().directory().File("absent.sock");
  refused({"--socket=" + nowhere}, 3,
          "kvpool_demo run: UNAVAILABLE: no daemon answers at " + nowhere +
              ": there is no such file\n");
  refused({"--pool=other"}, 1, "kvpool_demo run: NOT_FOUND: there is no pool 'other'");
  refused({"--text="}, 2, "kvpool_demo: --text is needed");
  refused({"--text=short"}, 1,
          "kvpool_demo run: INVALID_ARGUMENT: the text has 5 bytes, a token each, and a block "
          "takes 16\n");
  refused({"stray"}, 2, "kvpool_demo: usage: kvpool_demo run|");
}

}  // namespace
}  // namespace kvpool::test
