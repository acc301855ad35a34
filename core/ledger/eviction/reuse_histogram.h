#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/ledger/eviction/age_bins.h"
#include "core/ledger/eviction/use_census.h"

namespace kvpool {

// ReuseHistogram learns at which age blocks are used again. A use counts in each bin that its age
// reaches while nobody uses the block again, as long as the block is seen: so those that go out of
// sight do not look as if they were never used again (Kaplan and Meier's estimate), nor do those
// that are still young.
//
// It begins with 200 uses that nobody made, of which 30 % are used again, at ages spread evenly
// over the logarithm from 1 s to 50 min. Times are in milliseconds, and must not fall.
class ReuseHistogram {
 public:
  ReuseHistogram();

  ReuseHistogram(const ReuseHistogram&) = delete;
  ReuseHistogram& operator=(const ReuseHistogram&) = delete;

  // A block was used now.
  void BeginUse(int64_t now_ms) { census_.Add(now_ms); }
  // A use of that time ends by another one, or goes out of sight. Require that there is one.
  void EndByReuse(int64_t use_ms, int64_t now_ms) { reuses_[census_.Remove(use_ms, now_ms)] += 1; }
  void EndOutOfSight(int64_t use_ms, int64_t now_ms) { census_.Remove(use_ms, now_ms); }

  // Counts what there was up to now by half from now on, so that the new outweighs the old.
  void Halve(int64_t now_ms);

  // By bin, the chance to be used again in it, of what reaches it.
  std::array<double, AgeBins::kCount> Hazards(int64_t now_ms);

 private:
  void CountReached(int64_t now_ms);

  UseCensus census_;
  std::array<double, AgeBins::kCount> reached_{};
  std::array<double, AgeBins::kCount> reuses_{};
};

}  // namespace kvpool
