#include "tests/unit/replay/generated_trace.h"

#include <chrono>
#include <map>
#include <vector>

namespace kvpool::test {
namespace {

constexpr uint64_t kBlockTokens = 512;

}  // namespace

replay::Trace GenerateTrace(Random& random, uint32_t request_count) {
  std::multimap<int64_t, std::vector<uint64_t>> requests;
  uint64_t next_block = 1'000;
  const auto grow = [&](std::vector<uint64_t>& blocks, uint32_t count) {
    for (; count > 0; --count) blocks.push_back(next_block++);
  };
  for (int64_t begin_ms = 0; requests.size() < request_count; begin_ms += random.Below(2'000)) {
    // One of a few system prompts, whose blocks have numbers of their own.
    const uint64_t prompt = random.Below(4);
    std::vector<uint64_t> blocks;
    for (uint64_t i = 0; i < prompt; ++i) blocks.push_back(prompt * 100 + i);
    grow(blocks, 1 + random.Below(12));
    int64_t time_ms = begin_ms;
    requests.emplace(time_ms, blocks);
    while (!random.OneIn(2)) {
      time_ms += 5'000 + random.Below(60'000);
      grow(blocks, 1 + random.Below(4));
      requests.emplace(time_ms, blocks);
    }
  }
  replay::Trace trace;
  for (const auto& [time_ms, blocks] : requests) {
    trace.Add(
        {.time = std::chrono::milliseconds(time_ms), .input_tokens = blocks.size() * kBlockTokens},
        blocks);
  }
  return trace;
}

}  // namespace kvpool::test
