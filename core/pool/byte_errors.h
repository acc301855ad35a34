#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace kvpool {

// How the failures of byte operations are told to callers.

// FAILED_PRECONDITION (DEVICE_FAILED) with the message of `error`, which a device gave.
absl::Status DeviceFailed(const absl::Status& error);

// The error of a part of a list, with its index counted from the list's start. `error` is as it
// was where it names no block.
absl::Status CountIndexFrom(uint32_t first, const absl::Status& error);

// ABORTED instead of NOT_HELD, STALE_BLOCK or NOT_LIVE: the block was the right one as the
// operation began. Other errors are as they were.
absl::Status LetGoMeanwhile(const absl::Status& error);

}  // namespace kvpool
