#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvpool::demo {

// A bf16 as it lies in memory: the upper half of a float.
using Bf16 = uint16_t;

// Rounds to the nearest, ties to even. Requires a finite value.
Bf16 ToBf16(float value);
float FromBf16(Bf16 value);

// ToyModel has the attention geometry of Llama-3.1-8B and weights from a fixed seed: it makes real
// keys, values and queries out of bytes, so that what one worker computed another can check.
//
// A token is a byte. Its embedding is projected to K, V and Q of each layer; K and Q are turned by
// rotary positions, as Llama does. There is no MLP and no residual stream: a token's K and V
// depend on the token and its position alone. Immutable; thread-safe.
class ToyModel {
 public:
  static constexpr uint32_t kLayers = 32;
  static constexpr uint32_t kKvHeads = 8;
  static constexpr uint32_t kQueryHeads = 32;
  static constexpr uint32_t kHeadDim = 128;
  static constexpr uint32_t kKvElements = kKvHeads * kHeadDim;  // Of one token, one side.
  static constexpr uint32_t kQueryElements = kQueryHeads * kHeadDim;

  ToyModel();

  // One token's K or V of one layer, head after head. `out` has kKvElements elements.
  void ComputeK(uint32_t layer, uint8_t token, uint32_t position, std::span<Bf16> out) const;
  void ComputeV(uint32_t layer, uint8_t token, std::span<Bf16> out) const;
  // The query of each query head: kQueryElements floats.
  std::vector<float> ComputeQuery(uint32_t layer, uint8_t token, uint32_t position) const;

 private:
  static constexpr uint32_t kEmbedding = 32;

  // The product of one layer's rows of `weights` and the token's embedding.
  std::vector<float> Project(const std::vector<float>& weights, uint32_t rows, uint32_t layer,
                             uint8_t token) const;

  std::vector<float> embeddings_;  // [token][kEmbedding]
  std::vector<float> k_weights_;   // [layer][kKvElements][kEmbedding]
  std::vector<float> v_weights_;
  std::vector<float> q_weights_;  // [layer][kQueryElements][kEmbedding]
};

}  // namespace kvpool::demo
