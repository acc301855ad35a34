#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace kvpool {

// The bins of ages since a block's last use: [0, 0.5 s), and from there each 1.35 times as long as
// the one before. The last takes all that is older, from 12.5 hours on.
class AgeBins {
 public:
  static constexpr size_t kCount = 40;

  // Where the bin begins, in milliseconds. That of kCount is where the last would end if it did.
  static constexpr int64_t begin_ms(size_t bin) { return kBeginsMs[bin]; }
  // Where it ends: the last never does.
  static constexpr int64_t end_ms(size_t bin) {
    return bin + 1 == kCount ? INT64_MAX : kBeginsMs[bin + 1];
  }

  // The bin of an age of at least 0.
  static constexpr size_t Of(int64_t age_ms) {
    const auto after = std::upper_bound(kBeginsMs.begin() + 1, kBeginsMs.end() - 1, age_ms);
    return static_cast<size_t>(after - kBeginsMs.begin()) - 1;
  }

 private:
  // Products of doubles, rounded down: the same everywhere.
  static constexpr std::array<int64_t, kCount + 1> MakeBegins() {
    std::array<int64_t, kCount + 1> begins{};
    double begin_ms = 500;
    for (size_t bin = 1; bin <= kCount; ++bin) {
      begins[bin] = static_cast<int64_t>(begin_ms);
      begin_ms *= 1.35;
    }
    return begins;
  }
  static const std::array<int64_t, kCount + 1> kBeginsMs;
};

constexpr std::array<int64_t, AgeBins::kCount + 1> AgeBins::kBeginsMs = AgeBins::MakeBegins();

}  // namespace kvpool
