#pragma once

#include <string>

#include "core/layout/pool_layout.h"

namespace kvpool::test {

// A valid spec to start from: 12 layers of 2 heads of 256, fp8, 16 tokens a block (E = 8192).
inline PoolSpec BaseSpec() {
  PoolSpec spec;
  spec.name = "base";
  spec.num_layers = 12;
  spec.num_kv_heads = 2;
  spec.head_dim = 256;
  spec.num_blocks = 4;
  return spec;
}

// One layer of one side: what a block of it takes is `block_bytes`.
inline PoolSpec OneSide(uint32_t heads, uint32_t dim, const std::string& dtype) {
  PoolSpec spec = BaseSpec();
  spec.num_layers = 1;
  spec.num_kv_heads = heads;
  spec.head_dim = dim;
  spec.dtype = dtype;
  spec.v_mode = VMode::kNone;
  return spec;
}

inline PoolSpec Raw(uint32_t block_size, uint32_t token_bytes) {
  PoolSpec spec;
  spec.name = "raw";
  spec.block_size = block_size;
  spec.num_layers = 1;
  spec.dtype = "raw";
  spec.raw_token_bytes = token_bytes;
  spec.num_blocks = 4;
  return spec;
}

}  // namespace kvpool::test
