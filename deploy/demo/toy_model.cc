#include "deploy/demo/toy_model.h"

#include <bit>
#include <cmath>

namespace kvpool::demo {
namespace {

// Llama 3's base of the rotary frequencies.
constexpr double kRotaryBase = 500'000.0;

// A generator whose numbers are the same on every machine (splitmix64).
class Generator {
 public:
  explicit Generator(uint64_t seed) : state_(seed) {}

  // Uniform in [-1, 1).
  float Next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    z ^= z >> 31;
    return static_cast<float>(static_cast<double>(z >> 11) * 0x1.0p-52 - 1.0);
  }

 private:
  uint64_t state_;
};

std::vector<float> Uniform(uint64_t seed, size_t count, float scale) {
  Generator generator(seed);
  std::vector<float> values(count);
  for (float& value : values) value = scale * generator.Next();
  return values;
}

// Turns each pair (i, i + dim / 2) of one head by position * base^(-2i / dim).
void Rotate(std::span<float> head, uint32_t position) {
  const size_t half = head.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head.size());
    const double angle = position * std::pow(kRotaryBase, exponent);
    const auto cosine = static_cast<float>(std::cos(angle));
    const auto sine = static_cast<float>(std::sin(angle));
    const float x = head[i];
    const float y = head[i + half];
    head[i] = x * cosine - y * sine;
    head[i + half] = x * sine + y * cosine;
  }
}

void RotateHeads(std::span<float> heads, uint32_t position) {
  for (size_t at = 0; at < heads.size(); at += ToyModel::kHeadDim) {
    Rotate(heads.subspan(at, ToyModel::kHeadDim), position);
  }
}

void Round(std::span<const float> values, std::span<Bf16> out) {
  for (size_t i = 0; i < values.size(); ++i) out[i] = ToBf16(values[i]);
}

}  // namespace

Bf16 ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<Bf16>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float FromBf16(Bf16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }

ToyModel::ToyModel() {
  // Embeddings have variance 1/3; weights of variance 1 / (kEmbedding / 3) give projections of
  // variance 1, and so attention scores that are neither flat nor one-hot.
  const float scale = std::sqrt(9.0F / kEmbedding);
  embeddings_ = Uniform(1, size_t{256} * kEmbedding, 1.0F);
  k_weights_ = Uniform(2, size_t{kLayers} * kKvElements * kEmbedding, scale);
  v_weights_ = Uniform(3, size_t{kLayers} * kKvElements * kEmbedding, scale);
  q_weights_ = Uniform(4, size_t{kLayers} * kQueryElements * kEmbedding, scale);
}

void ToyModel::ComputeK(uint32_t layer, uint8_t token, uint32_t position,
                        std::span<Bf16> out) const {
  std::vector<float> k = Project(k_weights_, kKvElements, layer, token);
  RotateHeads(k, position);
  Round(k, out);
}

void ToyModel::ComputeV(uint32_t layer, uint8_t token, std::span<Bf16> out) const {
  Round(Project(v_weights_, kKvElements, layer, token), out);
}

std::vector<float> ToyModel::ComputeQuery(uint32_t layer, uint8_t token, uint32_t position) const {
  std::vector<float> query = Project(q_weights_, kQueryElements, layer, token);
  RotateHeads(query, position);
  return query;
}

std::vector<float> ToyModel::Project(const std::vector<float>& weights, uint32_t rows,
                                     uint32_t layer, uint8_t token) const {
  const float* embedding = &embeddings_[size_t{token} * kEmbedding];
  const float* row = &weights[size_t{layer} * rows * kEmbedding];
  std::vector<float> out(rows);
  for (float& value : out) {
    float sum = 0;
    for (uint32_t i = 0; i < kEmbedding; ++i) sum += row[i] * embedding[i];
    value = sum;
    row += kEmbedding;
  }
  return out;
}

}  // namespace kvpool::demo
