#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace kvpool::test {

// The seed of this run: KVPOOL_TEST_SEED, or a fixed one. Print it with every failure.
inline uint64_t Seed() {
  const char* text = std::getenv("KVPOOL_TEST_SEED");
  return text == nullptr ? 20'240'229 : std::strtoull(text, nullptr, 10);
}

// A small source of random choices; the same seed gives the same choices everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  // Uniform in [0, bound). Requires bound > 0.
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(engine_() % bound); }
  // True once in `n` times.
  bool OneIn(uint32_t n) { return Below(n) == 0; }
  uint64_t Next() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

}  // namespace kvpool::test
