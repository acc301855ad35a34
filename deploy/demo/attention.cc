#include "deploy/demo/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvpool::demo {
namespace {

constexpr uint32_t kDim = ToyModel::kHeadDim;
constexpr uint32_t kGroup = ToyModel::kQueryHeads / ToyModel::kKvHeads;

// What one head has seen so far: softmax numerators relative to the largest score.
struct Running {
  float largest = -std::numeric_limits<float>::infinity();
  float weight = 0;
  std::vector<float> output = std::vector<float>(kDim, 0.0F);
};

float Score(std::span<const float> query, std::span<const Bf16> key) {
  float sum = 0;
  for (uint32_t i = 0; i < kDim; ++i) sum += query[i] * FromBf16(key[i]);
  return sum / std::sqrt(static_cast<float>(kDim));
}

void See(Running& running, float score, std::span<const Bf16> value) {
  if (score > running.largest) {
    const float shrink = std::exp(running.largest - score);
    running.largest = score;
    running.weight *= shrink;
    for (float& element : running.output) element *= shrink;
  }
  const float weight = std::exp(score - running.largest);
  running.weight += weight;
  for (uint32_t i = 0; i < kDim; ++i) running.output[i] += weight * FromBf16(value[i]);
}

}  // namespace

std::vector<float> PagedAttention(std::span<const float> queries,
                                  std::span<const BlockView> blocks) {
  std::vector<float> out;
  out.reserve(queries.size());
  for (uint32_t head = 0; head < ToyModel::kQueryHeads; ++head) {
    const auto query = queries.subspan(size_t{head} * kDim, kDim);
    const size_t kv_at = size_t{head / kGroup} * kDim;
    Running running;
    for (const BlockView& block : blocks) {
      for (size_t at = kv_at; at < block.k.size(); at += ToyModel::kKvElements) {
        See(running, Score(query, block.k.subspan(at, kDim)), block.v.subspan(at, kDim));
      }
    }
    for (const float element : running.output) out.push_back(element / running.weight);
  }
  return out;
}

std::vector<float> ContiguousAttention(std::span<const float> queries, std::span<const Bf16> k,
                                       std::span<const Bf16> v) {
  const size_t tokens = k.size() / ToyModel::kKvElements;
  std::vector<float> out;
  std::vector<double> weights(tokens);
  for (uint32_t head = 0; head < ToyModel::kQueryHeads; ++head) {
    const float* query = &queries[size_t{head} * kDim];
    const size_t kv_at = size_t{head / kGroup} * kDim;
    for (size_t token = 0; token < tokens; ++token) {
      double score = 0;
      for (uint32_t i = 0; i < kDim; ++i) {
        score += double{query[i]} * FromBf16(k[token * ToyModel::kKvElements + kv_at + i]);
      }
      weights[token] = score / std::sqrt(double{kDim});
    }
    const double largest = *std::ranges::max_element(weights);
    double total = 0;
    for (double& weight : weights) total += (weight = std::exp(weight - largest));
    for (uint32_t i = 0; i < kDim; ++i) {
      double sum = 0;
      for (size_t token = 0; token < tokens; ++token) {
        sum += weights[token] * FromBf16(v[token * ToyModel::kKvElements + kv_at + i]);
      }
      out.push_back(static_cast<float>(sum / total));
    }
  }
  return out;
}

double RelativeError(std::span<const float> actual, std::span<const float> expected) {
  double worst = 0;
  for (size_t head = 0; head < expected.size(); head += kDim) {
    double scale = 0;
    double difference = 0;
    for (size_t i = head; i < head + kDim; ++i) {
      scale = std::max(scale, std::abs(double{expected[i]}));
      const double gap = std::abs(double{actual[i]} - double{expected[i]});
      // A NaN is an error too, and compares with nothing.
      difference =
          std::isnan(gap) ? std::numeric_limits<double>::infinity() : std::max(difference, gap);
    }
    worst = std::max(worst, difference / scale);
  }
  return worst;
}

}  // namespace kvpool::demo
