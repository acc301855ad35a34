#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "absl/base/thread_annotations.h"

#include "core/device/device.h"
#include "core/mutex.h"

namespace kvpool::test {

// FakeDevice is a Device in plain, lazily backed memory of this process: large regions cost only
// what is touched. Operations take effect and complete at once, in the caller's thread, until
// they are held; a held one has no effect before it is completed, and does not copy the spans that
// it was given. Destroying it with operations held ends them with CANCELLED. Regions may outlive
// it. Thread-safe; completions are called without its mutex.
class FakeDevice final : public Device {
 public:
  explicit FakeDevice(uint64_t total_bytes = uint64_t{1} << 40);
  ~FakeDevice() override;

  const DeviceInfo& info() const override { return info_; }
  absl::StatusOr<DeviceMemory> QueryMemory() const override;
  absl::StatusOr<std::unique_ptr<Region>> Allocate(uint64_t size_bytes,
                                                   absl::string_view name) override;
  void Fill(Region& region, std::span<const Extent> extents, uint8_t value,
            Completion done) override;
  void Copy(const Region& source, Region& destination, std::span<const CopyExtent> extents,
            Completion done) override;
  void Read(const Region& region, std::span<const Extent> extents, std::span<std::byte> bytes,
            Completion done) override;
  void Write(Region& region, std::span<const Extent> extents, std::span<const std::byte> bytes,
             Completion done) override;

  // Operations from now on wait for one of the three below.
  void Hold();
  // Does the held operations, oldest first, and those that come later at once.
  void Release();
  // Does the oldest held operation. False where none is held.
  bool CompleteOne();
  // Ends the oldest held operation with `error` and without effect. False where none is held.
  bool FailOne(absl::Status error);

  // The next operation (or allocation) fails with `error`, without effect. A held one fails when
  // it is completed.
  void FailNextOperation(absl::Status error);
  void FailNextAllocation(absl::Status error);

  // The bytes of a region that a FakeDevice made.
  static std::span<std::byte> Bytes(Region& region);

  size_t held_count() const;
  // Of all operations so far.
  uint64_t extent_count() const;
  uint64_t allocated_bytes() const { return *allocated_bytes_; }

 private:
  using Work = absl::AnyInvocable<void()>;
  struct Operation {
    Work work;
    absl::Status status;
    Completion done;
  };

  void Start(size_t extent_count, Work work, Completion done);
  std::optional<Operation> TakeOldest();
  static void Finish(Operation operation);

  const DeviceInfo info_{.kind = DeviceKind::kHost, .uuid = "", .name = "fake"};
  const uint64_t total_bytes_;
  const std::shared_ptr<std::atomic<uint64_t>> allocated_bytes_;
  mutable Mutex mutex_;
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Operation> held_ ABSL_GUARDED_BY(mutex_);
  absl::Status next_operation_ ABSL_GUARDED_BY(mutex_);
  absl::Status next_allocation_ ABSL_GUARDED_BY(mutex_);
  uint64_t extent_count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace kvpool::test
