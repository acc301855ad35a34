#include "tests/model/eviction/learned_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvpool::test {

LearnedModel::LearnedModel(uint32_t capacity) : ghost_limit_(4 * size_t{capacity}) {
  // 0, 0.5 s, and from there x 1.35.
  double begin_ms = 500;
  for (size_t bin = 1; bin <= kBins; ++bin, begin_ms *= 1.35) {
    begins_ms_[bin] = static_cast<int64_t>(begin_ms);
  }
  // 200 uses, 30 % of them reused, log-uniform from 1 s to 50 min; the rest never.
  for (Class& prior : classes_) {
    double left = 200;
    for (size_t bin = 0; bin < kBins; ++bin) {
      const double from = std::max(1e3, static_cast<double>(begins_ms_[bin]));
      const double to = std::min(3e6, static_cast<double>(begins_ms_[bin + 1]));
      const double share = std::max(0.0, std::log(to / from) / std::log(3e6 / 1e3));
      prior.reached[bin] = left;
      prior.reuses[bin] = std::round(60 * share * 1048576) / 1048576;
      left -= prior.reuses[bin];
    }
  }
  ComputeIndices();
}

void LearnedModel::AddBlock(BlockId id, TenantSlot tenant, uint64_t prefix, TimePoint now) {
  PolicyModel::AddBlock(id, tenant, prefix, now);
  ModelBlock& block = blocks_.at(id);
  const auto ghost = std::ranges::find(ghosts_, prefix, &ModelBlock::prefix);
  if (ghost != ghosts_.end()) {
    EndUse(*ghost, /*is_reuse=*/true);
    ghosts_.erase(ghost);
    block.is_seen_again = true;
  }
  BeginUse(block);
}

void LearnedModel::UseBlock(BlockId id, TimePoint now) {
  Advance(now);
  EndUse(blocks_.at(id), /*is_reuse=*/true);
  PolicyModel::UseBlock(id, now);
  blocks_.at(id).is_seen_again = true;
  blocks_.at(id).is_done = false;
  BeginUse(blocks_.at(id));
}

void LearnedModel::ForgetEvicted(BlockId id, TimePoint now) {
  Advance(now);
  const ModelBlock block = blocks_.at(id);
  const auto lose = [this](std::vector<ModelBlock>::iterator lost) {
    EndUse(*lost, /*is_reuse=*/false);
    ghosts_.erase(lost);
  };
  // Its older self; else down to the limit, by two at most for the one that comes.
  const auto same = std::ranges::find(ghosts_, block.prefix, &ModelBlock::prefix);
  int may_lose = 2;
  if (same != ghosts_.end()) {
    lose(same);
    --may_lose;
  }
  ghosts_.push_back(block);
  for (; may_lose > 0 && ghosts_.size() > ghost_limit_; --may_lose) lose(ghosts_.begin());
  blocks_.erase(id);
}

void LearnedModel::ForgetRemoved(BlockId id, TimePoint now) {
  Advance(now);
  EndUse(blocks_.at(id), /*is_reuse=*/false);
  blocks_.erase(id);
}

void LearnedModel::CountRequest(TimePoint now) {
  Advance(now);
  ++request_count_;
  block_count_sum_ += blocks_.size();
  if (request_count_ % 2'000 == 0) {
    CountReached();
    for (Class& halved : classes_) {
      for (double& count : halved.reached) count /= 2;
      for (double& count : halved.reuses) count /= 2;
    }
  }
  if (request_count_ % 50 == 0) {
    CountReached();
    ComputeIndices();
    ghost_limit_ = 4 * std::max<size_t>(1, block_count_sum_ / 50);
    block_count_sum_ = 0;
  }
}

std::optional<BlockId> LearnedModel::Choose(TenantSlot tenant, TimePoint now) {
  Advance(now);
  const std::map<uint64_t, BlockId> candidates = CandidatesByUse(tenant);
  for (const auto& [use_number, id] : candidates) {
    if (blocks_.at(id).is_done) return id;
  }
  std::optional<BlockId> chosen;
  double least_value = 0;
  std::array<std::array<bool, kBins>, 2> has_older{};
  for (const auto& [use_number, id] : candidates) {
    const ModelBlock& block = blocks_.at(id);
    // Only the oldest of each class and bin competes.
    bool& is_taken = has_older[block.is_seen_again ? 1 : 0][BinOf(now_ms_ - block.use_ms)];
    if (std::exchange(is_taken, true)) continue;
    const double value = ValueOf(block);
    if (chosen.has_value() && value >= least_value) continue;
    chosen = id;
    least_value = value;
  }
  return chosen;
}

size_t LearnedModel::BinOf(int64_t age_ms) const {
  size_t bin = 0;
  while (bin + 1 < kBins && begins_ms_[bin + 1] <= age_ms) ++bin;
  return bin;
}

int64_t LearnedModel::RoundedAge(int64_t use_ms) const {
  const auto round_down = [](int64_t time, int64_t width) { return time - time % width; };
  int64_t width = 16;
  while (use_ms < round_down(now_ms_, 2 * width) - 31 * 2 * width) width *= 2;
  return now_ms_ - round_down(use_ms, width);
}

void LearnedModel::BeginUse(ModelBlock& block) {
  block.reached_bin = 0;
  ++classes_[block.is_seen_again ? 1 : 0].reached_lately[0];
}

void LearnedModel::EndUse(const ModelBlock& block, bool is_reuse) {
  Class& of_block = classes_[block.is_seen_again ? 1 : 0];
  const size_t bin = BinOf(now_ms_ - block.use_ms);
  for (size_t i = block.reached_bin + 1; i <= bin; ++i) ++of_block.reached_lately[i];
  for (size_t i = bin + 1; i <= block.reached_bin; ++i) --of_block.reached_lately[i];
  if (is_reuse) of_block.reuses[bin] += 1;
}

void LearnedModel::CountReached() {
  const auto count = [this](ModelBlock& block) {
    const size_t bin = BinOf(RoundedAge(block.use_ms));
    for (size_t i = block.reached_bin + 1; i <= bin; ++i) {
      ++classes_[block.is_seen_again ? 1 : 0].reached_lately[i];
    }
    block.reached_bin = bin;
  };
  for (auto& [id, block] : blocks_) count(block);
  for (ModelBlock& ghost : ghosts_) count(ghost);
  for (Class& counted : classes_) {
    for (size_t bin = 0; bin < kBins; ++bin) {
      counted.reached[bin] += static_cast<double>(std::exchange(counted.reached_lately[bin], 0));
    }
  }
}

void LearnedModel::ComputeIndices() {
  const auto seconds = [this](size_t bin) { return static_cast<double>(begins_ms_[bin]) / 1000; };
  for (Class& computed : classes_) {
    for (size_t begin = 0; begin < kBins; ++begin) {
      double alive = 1;
      double used = 0;
      double time = 0;
      double best = 0;
      for (size_t e = begin; e < kBins; ++e) {
        double hazard = 0;
        if (computed.reuses[e] > 0) hazard = computed.reuses[e] / computed.reached[e];
        if (computed.reuses[e] > 0 && computed.reuses[e] >= computed.reached[e]) hazard = 1;
        used += alive * hazard;
        time += alive * hazard * ((seconds(e) + seconds(e + 1)) / 2 - seconds(begin));
        alive -= alive * hazard;
        best = std::max(best, used / (time + alive * (seconds(e + 1) - seconds(begin))));
      }
      computed.index[begin] = best;
    }
  }
}

double LearnedModel::ValueOf(const ModelBlock& block) const {
  const std::array<double, kBins>& index = classes_[block.is_seen_again ? 1 : 0].index;
  const int64_t age_ms = now_ms_ - block.use_ms;
  const size_t bin = BinOf(age_ms);
  if (bin + 1 == kBins) return index[bin];
  const auto length = static_cast<double>(begins_ms_[bin + 1] - begins_ms_[bin]);
  const double slope = (index[bin + 1] - index[bin]) / length;
  const double value = index[bin] + slope * static_cast<double>(age_ms - begins_ms_[bin]);
  return std::max(value, std::min(index[bin], index[bin + 1]));
}

}  // namespace kvpool::test
