// Asks a machine's GPU and its driver what only they can tell, and prints a table for RESULTS.md.
//
//   gpu_questions [SECONDS [NUMBER]]   all questions, or one; each has so long (15), all together
//                                      eleven times as long
//
// Without a GPU: one line on stderr, exit code 1. It runs itself again as what else it needs:
//
//   gpu_questions --machine
//   gpu_questions --ask NUMBER
//   gpu_questions --peer
//   gpu_questions --namespaced PID ARGUMENTS...
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

#include "tests/gpu/questions/deadline.h"
#include "tests/gpu/questions/namespaces.h"
#include "tests/gpu/questions/peer.h"
#include "tests/gpu/questions/question.h"

namespace kvpool::questions {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kUsage = 2;

int Usage() {
  std::cerr
      << "usage: gpu_questions [SECONDS [NUMBER]], how long each question has, from 1 to 600, "
         "and which one to ask alone"
      << std::endl;
  return kUsage;
}

// The question of that number; nothing where there is none.
const Question* FindQuestion(const char* word) {
  int number = 0;
  if (!absl::SimpleAtoi(word, &number)) return nullptr;
  const auto found = std::ranges::find(Questions(), number, &Question::number);
  return found == Questions().end() ? nullptr : &*found;
}

int Ask(const char* word) {
  const Question* const question = FindQuestion(word);
  if (question == nullptr) return Usage();
  question->ask();
  return 0;
}

// A table's cell.
std::string AnswerOf(const Outcome& outcome, milliseconds limit) {
  std::vector<std::string> pieces = outcome.lines;
  const auto limit_s = static_cast<double>(limit.count()) / 1000.0;
  if (outcome.is_late) {
    pieces.push_back(absl::StrCat("no answer in ", limit_s, " s"));
  } else if (outcome.exit_code != 0) {
    pieces.push_back(absl::StrCat("the asker ended with ", outcome.exit_code));
  } else if (pieces.empty()) {
    pieces.emplace_back("nothing was said");
  }
  return absl::StrReplaceAll(absl::StrJoin(pieces, "; "), {{"|", "\\|"}});
}

// How many questions' time all of them have: 165 s of 15 s each, since few take theirs.
constexpr int kTimesInAll = 11;

int AskAll(std::span<const Question> questions, seconds each) {
  const auto end = Clock::now() + each * kTimesInAll;
  const Outcome machine = RunWithDeadline({"--machine"}, each);
  if (machine.is_late) std::cerr << "the driver does not answer" << std::endl;
  if (machine.is_late || machine.exit_code != 0) return 1;
  std::cout << absl::StrJoin(machine.lines, " ") << "\n\n"
            << "| number | question | answer |\n|---|---|---|" << std::endl;
  for (const Question& question : questions) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    const milliseconds limit = std::min<milliseconds>(each, left);
    const std::string answer =
        limit.count() <= 0
            ? "not asked: no time is left"
            : AnswerOf(RunWithDeadline({"--ask", std::to_string(question.number)}, limit), limit);
    std::cout << "| " << question.number << " | " << question.text << " | " << answer << " |"
              << std::endl;
  }
  return 0;
}

int Main(int argument_count, char** arguments) {
  const std::string mode = argument_count > 1 ? arguments[1] : "15";
  if (mode == "--machine") return SayMachine() ? 0 : 1;
  if (mode == "--peer") return RunPeer();
  if (mode == "--ask" && argument_count == 3) return Ask(arguments[2]);
  if (mode == "--namespaced" && argument_count > 3) {
    // The rest begins where the program's name would be.
    return RunInNamespaces(std::atoi(arguments[2]), arguments + 2);
  }
  int each_s = 0;
  if (argument_count > 3 || !absl::SimpleAtoi(mode, &each_s)) return Usage();
  if (each_s < 1 || each_s > 600) return Usage();
  if (argument_count < 3) return AskAll(Questions(), seconds(each_s));
  const Question* const question = FindQuestion(arguments[2]);
  if (question == nullptr) return Usage();
  return AskAll(std::span(question, 1), seconds(each_s));
}

}  // namespace
}  // namespace kvpool::questions

int main(int argument_count, char** arguments) {
  return kvpool::questions::Main(argument_count, arguments);
}
