#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace kvpool::bench {

// Times of one kind of call, in microseconds.
class Samples {
 public:
  void Add(double microseconds) { values_.push_back(microseconds); }

  // The `percent` percentile, nearest rank. Requires a sample.
  double Percentile(double percent) const {
    std::vector<double> sorted = values_;
    std::ranges::sort(sorted);
    const auto rank =
        static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(sorted.size())));
    return sorted[std::max<size_t>(rank, 1) - 1];
  }
  double Median() const { return Percentile(50); }
  size_t count() const { return values_.size(); }

 private:
  std::vector<double> values_;
};

// How long `call` takes, in microseconds.
template <typename Call>
double Time(Call&& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace kvpool::bench
