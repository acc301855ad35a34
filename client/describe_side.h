#pragma once

#include "absl/status/statusor.h"

#include "client/side_tensor.h"
#include "core/layout/pool_layout.h"

namespace kvpool::client {

// What SideTensor says of `side`, one of `layout`'s, on no device yet. FAILED_PRECONDITION where
// blocks do not begin at whole elements of each other, which no tensor can have; INTERNAL where the
// side's numbers do not agree.
absl::StatusOr<SideTensor> DescribeSide(const PoolLayout& layout, const SideLayout& side);

}  // namespace kvpool::client
