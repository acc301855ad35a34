#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "client/mapping.h"

namespace kvpool::test {

// One side of one block through a worker's mapping, wherever the pool's memory is: the host's
// memory is touched in place, a GPU's by copies of the driver's, as its kernels would. What is
// required of Mapping::k and its like is required here. INTERNAL, naming the call, where the
// driver refuses.

// How many bytes the side has.
uint64_t SideSize(const client::Mapping& mapping, uint32_t layer, bool is_k);

absl::StatusOr<std::vector<std::byte>> ReadSide(const client::Mapping& mapping, uint32_t layer,
                                                bool is_k, BlockId block);

// Writes the side's first bytes. Requires that it has as many.
absl::Status WriteSide(client::Mapping& mapping, uint32_t layer, bool is_k, BlockId block,
                       std::span<const std::byte> bytes);

// Calls `visit(layer, is_k)`, which returns a status, with every side, up to the first error.
template <typename Visit>
absl::Status EachSide(const client::Mapping& mapping, Visit visit) {
  for (uint32_t layer = 0; layer < mapping.layout().layers.size(); ++layer) {
    for (const bool is_k : {true, false}) {
      if (!is_k && !mapping.has_v()) continue;
      if (absl::Status status = visit(layer, is_k); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace kvpool::test
