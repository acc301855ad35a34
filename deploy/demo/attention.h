#pragma once

#include <functional>
#include <span>
#include <vector>

#include "deploy/demo/toy_model.h"

namespace kvpool::demo {

// The K and V of one block of one layer: tokens in order, each ToyModel::kKvElements elements.
struct BlockView {
  std::span<const Bf16> k;
  std::span<const Bf16> v;
};

// Attention of one query token over K and V that lie in blocks anywhere, read in place. A softmax
// that needs one pass over the blocks, as paged attention kernels do. `queries` has
// ToyModel::kQueryElements elements; query heads share KV heads in order (grouped-query).
// Returns the output of each query head, kQueryElements floats.
std::vector<float> PagedAttention(std::span<const float> queries,
                                  std::span<const BlockView> blocks);

// The same over contiguous K and V, in double precision and two passes: written apart from
// PagedAttention to check it.
std::vector<float> ContiguousAttention(std::span<const float> queries, std::span<const Bf16> k,
                                       std::span<const Bf16> v);

// The largest difference of a head's output from the expected one, relative to the largest
// element of that head.
double RelativeError(std::span<const float> actual, std::span<const float> expected);

}  // namespace kvpool::demo
