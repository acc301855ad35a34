#include "tests/integration/support/block_bytes.h"

#include <algorithm>

#include "core/check.h"
#include "core/status_macros.h"
#include "deploy/demo/gpu_copies.h"

namespace kvpool::test {
namespace {

const SideLayout& LayoutOf(const client::Mapping& mapping, uint32_t layer, bool is_k) {
  const LayerLayout& layout = mapping.layout().layers.at(layer);
  return is_k ? layout.k : layout.v.value();
}

// Where the block's side begins on the GPU.
std::byte* Address(const client::Mapping& mapping, uint32_t layer, bool is_k, BlockId block) {
  KVPOOL_CHECK(ToIndex(block) < mapping.layout().num_blocks);
  void* const side = is_k ? mapping.k_ptr(layer) : mapping.v_ptr(layer);
  return static_cast<std::byte*>(side) +
         ToIndex(block) * LayoutOf(mapping, layer, is_k).stride_bytes;
}

}  // namespace

uint64_t SideSize(const client::Mapping& mapping, uint32_t layer, bool is_k) {
  return LayoutOf(mapping, layer, is_k).block_bytes;
}

absl::StatusOr<std::vector<std::byte>> ReadSide(const client::Mapping& mapping, uint32_t layer,
                                                bool is_k, BlockId block) {
  if (!mapping.is_on_gpu()) {
    const std::span<const std::byte> side =
        is_k ? mapping.k(layer, block) : mapping.v(layer, block);
    return std::vector<std::byte>(side.begin(), side.end());
  }
  std::vector<std::byte> bytes(SideSize(mapping, layer, is_k));
  KVPOOL_RETURN_IF_ERROR(demo::CopyFromGpu(Address(mapping, layer, is_k, block), bytes));
  return bytes;
}

absl::Status WriteSide(client::Mapping& mapping, uint32_t layer, bool is_k, BlockId block,
                       std::span<const std::byte> bytes) {
  KVPOOL_CHECK(bytes.size() <= SideSize(mapping, layer, is_k));
  if (mapping.is_on_gpu()) {
    return demo::CopyToGpu(bytes, Address(mapping, layer, is_k, block));
  }
  std::ranges::copy(
      bytes, (is_k ? mapping.mutable_k(layer, block) : mapping.mutable_v(layer, block)).begin());
  return absl::OkStatus();
}

}  // namespace kvpool::test
