#include "tests/integration/hostile/scene.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "tests/support/catch.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

DaemonProcess::Options Options(std::vector<std::string> flags) {
  const std::string closed = absl::StrCat(R"(, "tenants": ["uid-)", geteuid(), R"("])");
  return {.pools_json = absl::StrCat("[", PoolJson("p", Scene::kBlocks), ", ",
                                     PoolJson("closed", Scene::kBlocks, closed), "]"),
          .flags = std::move(flags)};
}

// "2026-01-31T23:59:59.999Z level=info event=", whatever the digits and the level are.
bool IsLogLine(absl::string_view line) {
  constexpr absl::string_view kTime = "0000-00-00T00:00:00.000Z";
  if (line.size() < kTime.size()) return false;
  for (size_t i = 0; i < kTime.size(); ++i) {
    const bool is_digit = line[i] >= '0' && line[i] <= '9';
    if (kTime[i] == '0' ? !is_digit : line[i] != kTime[i]) return false;
  }
  line.remove_prefix(kTime.size());
  if (!absl::ConsumePrefix(&line, " level=")) return false;
  const size_t level_size = line.find(' ');
  if (level_size == absl::string_view::npos) return false;
  line.remove_prefix(level_size);
  return absl::ConsumePrefix(&line, " event=") && !absl::ConsumePrefix(&line, "forged") &&
         std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

Scene::Scene(std::vector<std::string> flags) : node_(Options(std::move(flags))) {
  using std::filesystem::perms;
  // The directory is this test's own, and so is the daemon's in it: only its group could enter.
  const auto may_enter = perms::owner_all | perms::group_exec | perms::others_exec;
  std::filesystem::permissions(node_.daemon().directory().path(), may_enter);
  std::filesystem::permissions(node_.daemon().directory().File("worker"), may_enter);
  in_open_pool_.emplace(node_, "p");
  in_closed_pool_.emplace(node_, "closed");
}

std::string Scene::AskMeanwhile(Hostile& hostile, const std::string& command) {
  auto answer = std::async(std::launch::async, [&] { return hostile.Ask(command); });
  // A witness that made no call would not answer the daemon's pings either.
  while (answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    in_open_pool_->Check();
    in_closed_pool_->Check();
    // The operator's connection is to stay, too.
    static_cast<void>(node_.Pool());
  }
  return answer.get();
}

bool Scene::BecomeQuiet() {
  return Eventually([&] {
    const v1::PoolStatus pool = node_.Pool();
    return pool.sessions() == 1 && pool.waiting_calls() == 0 &&
           pool.free_blocks() == kBlocks - Witness::kHeld;
  });
}

bool Scene::StopsGrowing(const std::function<void()>& round) {
  constexpr int kMaxRounds = 20;
  // Under 400 bytes for each of 3,000.
  constexpr uint64_t kLeastLeak = 1 << 20;
  for (int i = 0; i < kMaxRounds; ++i) {
    const uint64_t before = node_.daemon().AnonymousBytes();
    round();
    node_.CountMemoryAgain();
    if (kIsSanitized || node_.daemon().AnonymousBytes() < before + kLeastLeak) return true;
  }
  return false;
}

void Scene::Check() {
  REQUIRE(node_.daemon().process().IsRunning());
  in_open_pool_->Check();
  in_closed_pool_->Check();
  node_.CheckCounts();
  CHECK(node_.Pool("closed").sessions() == 1);
  CheckLog(node_.daemon().Log());
}

void Scene::CheckLast() {
  REQUIRE(BecomeQuiet());
  Check();
  in_open_pool_->Close();
  in_closed_pool_->Close();
  in_open_pool_.reset();
  in_closed_pool_.reset();
  node_.CheckAllIsBack();
}

void CheckLog(const std::string& log) {
  std::vector<std::string> lines = absl::StrSplit(log, '\n');
  // What follows the last line's end; a line being written lies there too.
  lines.pop_back();
  const auto wrong = std::ranges::find_if_not(lines, IsLogLine);
  if (wrong == lines.end()) return;
  CAPTURE(*wrong);
  FAIL("a line of the log is not the daemon's");
}

}  // namespace kvpool::test
