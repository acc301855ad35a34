#include "tests/model/exhaustive/search.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"

namespace kvpool::test {
namespace {

struct State {
  uint32_t parent = 0;
  uint8_t letter = 0;
};

// The list at hand, for where a KVPOOL_CHECK ends the process.
const std::vector<Letter>* calls_at_hand = nullptr;

void TellCalls(int signal) {
  if (calls_at_hand != nullptr) std::fprintf(stderr, "after\n%s", ToText(*calls_at_hand).c_str());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

class TellsCallsWhereAborted {
 public:
  explicit TellsCallsWhereAborted(const std::vector<Letter>& calls)
      : previous_(std::signal(SIGABRT, &TellCalls)) {
    calls_at_hand = &calls;
  }
  ~TellsCallsWhereAborted() {
    calls_at_hand = nullptr;
    std::signal(SIGABRT, previous_);
  }
  TellsCallsWhereAborted(const TellsCallsWhereAborted&) = delete;
  TellsCallsWhereAborted& operator=(const TellsCallsWhereAborted&) = delete;

 private:
  void (*previous_)(int);
};

class Searcher {
 public:
  Searcher(const WorldOptions& options, const std::vector<Letter>& letters, Reached& reached)
      : options_(options), letters_(letters), reached_(reached) {}

  SearchResult Run(uint32_t depth) {
    const TellsCallsWhereAborted tells(calls_);
    states_.push_back({});
    result_.states.push_back(1);
    size_t begin = 0;
    for (uint32_t length = 0; length < depth && result_.fault.empty(); ++length) {
      const size_t end = states_.size();
      for (size_t i = begin; i < end && result_.fault.empty(); ++i) Expand(i, length + 1 < depth);
      begin = end;
      result_.states.push_back(states_.size() - end);
    }
    return std::move(result_);
  }

 private:
  void Expand(size_t state, bool goes_on) {
    calls_.clear();
    for (size_t i = state; i != 0; i = states_[i].parent) {
      calls_.push_back(letters_[states_[i].letter]);
    }
    std::ranges::reverse(calls_);
    std::unique_ptr<World> world;
    std::string before;
    for (size_t i = 0; i < letters_.size(); ++i) {
      if (world == nullptr) {
        world = std::make_unique<World>(options_, reached_);
        for (const Letter& letter : calls_) world->Redo(letter);
        before = world->Describe({});
      }
      calls_.push_back(letters_[i]);
      const bool was_made = world->Do(letters_[i]);
      if (was_made) ++result_.call_count;
      if (!world->fault().empty()) {
        result_.fault = world->fault();
        result_.calls = calls_;
        return;
      }
      calls_.pop_back();
      // One that was refused has changed nothing, but maybe the time of the next end.
      if (!was_made || (world->was_refused() && world->Describe({}) == before)) continue;
      if (goes_on) Add(*world, state, i);
      world.reset();
    }
  }

  void Add(World& world, size_t parent, size_t letter) {
    const std::string text = world.Describe(world.TakeAll());
    if (!known_.insert({absl::HashOf(text, 0), absl::HashOf(text, 1)}).second) return;
    states_.push_back(
        {.parent = static_cast<uint32_t>(parent), .letter = static_cast<uint8_t>(letter)});
  }

  const WorldOptions options_;
  const std::vector<Letter>& letters_;
  Reached& reached_;
  std::vector<State> states_;
  // 128 bits of hash stand for a state: two of millions are the same once in 10^25 runs.
  absl::flat_hash_set<std::pair<size_t, size_t>> known_;
  std::vector<Letter> calls_;
  SearchResult result_;
};

}  // namespace

SearchResult Search(const WorldOptions& options, const std::vector<Letter>& letters, uint32_t depth,
                    Reached& reached) {
  return Searcher(options, letters, reached).Run(depth);
}

}  // namespace kvpool::test
