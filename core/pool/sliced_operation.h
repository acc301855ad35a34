#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

#include "core/device/device.h"
#include "core/ids.h"
#include "core/layout/pool_layout.h"
#include "core/pool/running_call.h"
#include "core/pool/step_loop.h"

namespace kvpool {

// The blocks of an operation in one of its pools. Each list is empty or as long as the operation.
struct SliceSide {
  std::unique_ptr<RunningCall> call;
  std::vector<BlockRef> reads;
  std::vector<BlockRef> writes;
  // Of the session that holds `writes`, where that is not `call`'s.
  std::unique_ptr<RunningCall> write_call;
};

// SlicedOperation does a byte operation on a list of blocks, a slice after the other: pins the
// slice's blocks, moves their bytes, unpins them. Others get their turn between two slices.
//
// The whole list is checked first, so that a wrong entry changes nothing. It owns itself until
// `done` has returned. Steps run on whatever thread the one before ended on, never two at once.
class SlicedOperation : public std::enable_shared_from_this<SlicedOperation> {
 public:
  // Moves the bytes of entries `first` to `first + count`, `count` > 0.
  using Move = absl::AnyInvocable<void(size_t first, size_t count, Completion done)>;
  using Done = absl::AnyInvocable<void(absl::Status)>;

  // Slices of a pool with this layout: kSliceBytes, or one block where that is more. A block is
  // not split: it would have to stay pinned all the same.
  static size_t SliceBlocks(const PoolLayout& layout);
  // Some 1 ms of copying: how long a block's next user, and a worker's next job, may have to wait.
  static constexpr uint64_t kSliceBytes = uint64_t{8} << 20;

  // Operates on the first `size` entries of each list. Pins `sides` in their order: it must be the
  // same for all operations on the same pools, or two of them might wait for each other.
  static void Start(std::vector<SliceSide> sides, size_t size, size_t slice_blocks, Move move,
                    Done done);

  SlicedOperation(const SlicedOperation&) = delete;
  SlicedOperation& operator=(const SlicedOperation&) = delete;

 private:
  SlicedOperation(std::vector<SliceSide> sides, size_t size, size_t slice_blocks, Move move,
                  Done done);

  // Checks the list, and pins down its generations, which the slices will then insist on.
  absl::Status Check();
  void Continue();
  void Step();
  void PinSide(const SliceSide& side);
  void MoveSlice();
  void Unpin();
  void Finish();

  size_t slice_size() const;

  std::vector<SliceSide> sides_;
  const size_t size_;
  const size_t slice_blocks_;
  Move move_;
  Done done_;

  StepLoop loop_;
  // Each belongs to the step that runs, or to the end of what it started.
  size_t first_ = 0;             // Of the slice.
  std::vector<PendingId> pins_;  // Of the slice; one a side, as far as it got.
  bool is_moved_ = false;        // The slice.
  absl::Status failure_;
};

}  // namespace kvpool
