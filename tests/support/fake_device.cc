#include "tests/support/fake_device.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/check.h"

namespace kvpool::test {
namespace {

class FakeRegion final : public Region {
 public:
  FakeRegion(std::span<std::byte> bytes, std::shared_ptr<std::atomic<uint64_t>> allocated_bytes)
      : bytes_(bytes), allocated_bytes_(std::move(allocated_bytes)) {
    *allocated_bytes_ += bytes_.size();
  }
  ~FakeRegion() override {
    munmap(bytes_.data(), bytes_.size());
    *allocated_bytes_ -= bytes_.size();
  }
  FakeRegion(const FakeRegion&) = delete;
  FakeRegion& operator=(const FakeRegion&) = delete;

  uint64_t size_bytes() const override { return bytes_.size(); }
  int shared_fd() const override { return -1; }

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  const std::span<std::byte> bytes_;
  const std::shared_ptr<std::atomic<uint64_t>> allocated_bytes_;
};

std::span<std::byte> BytesOf(const Region& region) {
  const auto* fake = dynamic_cast<const FakeRegion*>(&region);
  KVPOOL_CHECK(fake != nullptr);
  return fake->bytes();
}

// The bytes of a region from `offset`; a run that passes the region's end is a bug of the caller.
std::span<std::byte> Run(const Region& region, uint64_t offset, uint64_t size) {
  const std::span<std::byte> bytes = BytesOf(region);
  KVPOOL_CHECK(size <= bytes.size() && offset <= bytes.size() - size);
  return bytes.subspan(offset, size);
}

uint64_t SumOf(std::span<const Extent> extents) {
  uint64_t sum = 0;
  for (const Extent& extent : extents) sum += extent.size_bytes;
  return sum;
}

}  // namespace

FakeDevice::FakeDevice(uint64_t total_bytes)
    : total_bytes_(total_bytes), allocated_bytes_(std::make_shared<std::atomic<uint64_t>>(0)) {}

FakeDevice::~FakeDevice() {
  while (FailOne(absl::CancelledError("the fake device is gone"))) {
  }
}

absl::StatusOr<DeviceMemory> FakeDevice::QueryMemory() const {
  return DeviceMemory{.total_bytes = total_bytes_, .free_bytes = total_bytes_ - *allocated_bytes_};
}

absl::StatusOr<std::unique_ptr<Region>> FakeDevice::Allocate(uint64_t size_bytes,
                                                             absl::string_view name) {
  const MutexLock lock(mutex_);
  if (absl::Status status = std::exchange(next_allocation_, absl::OkStatus()); !status.ok()) {
    return status;
  }
  if (size_bytes == 0) return absl::InvalidArgumentError("a region of 0 bytes");
  const uint64_t free_bytes = total_bytes_ - *allocated_bytes_;
  if (size_bytes > free_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("region '", name, "' needs ", size_bytes,
                                                     " bytes, ", free_bytes, " are available"));
  }
  void* data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  KVPOOL_CHECK(data != MAP_FAILED);
  return std::make_unique<FakeRegion>(std::span(static_cast<std::byte*>(data), size_bytes),
                                      allocated_bytes_);
}

void FakeDevice::Fill(Region& region, std::span<const Extent> extents, uint8_t value,
                      Completion done) {
  Start(
      extents.size(),
      [&region, extents, value] {
        for (const Extent& extent : extents) {
          const auto run = Run(region, extent.offset_bytes, extent.size_bytes);
          std::memset(run.data(), value, run.size());
        }
      },
      std::move(done));
}

void FakeDevice::Copy(const Region& source, Region& destination,
                      std::span<const CopyExtent> extents, Completion done) {
  Start(
      extents.size(),
      [&source, &destination, extents] {
        for (const CopyExtent& extent : extents) {
          const auto from = Run(source, extent.source_bytes, extent.size_bytes);
          const auto to = Run(destination, extent.destination_bytes, extent.size_bytes);
          std::memcpy(to.data(), from.data(), from.size());
        }
      },
      std::move(done));
}

void FakeDevice::Read(const Region& region, std::span<const Extent> extents,
                      std::span<std::byte> bytes, Completion done) {
  KVPOOL_CHECK(SumOf(extents) == bytes.size());
  Start(
      extents.size(),
      [&region, extents, bytes] {
        std::byte* to = bytes.data();
        for (const Extent& extent : extents) {
          const auto run = Run(region, extent.offset_bytes, extent.size_bytes);
          if (!run.empty()) std::memcpy(to, run.data(), run.size());
          to += run.size();
        }
      },
      std::move(done));
}

void FakeDevice::Write(Region& region, std::span<const Extent> extents,
                       std::span<const std::byte> bytes, Completion done) {
  KVPOOL_CHECK(SumOf(extents) == bytes.size());
  Start(
      extents.size(),
      [&region, extents, bytes] {
        const std::byte* from = bytes.data();
        for (const Extent& extent : extents) {
          const auto run = Run(region, extent.offset_bytes, extent.size_bytes);
          if (!run.empty()) std::memcpy(run.data(), from, run.size());
          from += run.size();
        }
      },
      std::move(done));
}

void FakeDevice::Hold() {
  const MutexLock lock(mutex_);
  holding_ = true;
}

void FakeDevice::Release() {
  {
    const MutexLock lock(mutex_);
    holding_ = false;
  }
  while (CompleteOne()) {
  }
}

bool FakeDevice::CompleteOne() {
  std::optional<Operation> operation = TakeOldest();
  if (!operation.has_value()) return false;
  Finish(*std::move(operation));
  return true;
}

bool FakeDevice::FailOne(absl::Status error) {
  std::optional<Operation> operation = TakeOldest();
  if (!operation.has_value()) return false;
  operation->status = std::move(error);
  Finish(*std::move(operation));
  return true;
}

void FakeDevice::FailNextOperation(absl::Status error) {
  const MutexLock lock(mutex_);
  next_operation_ = std::move(error);
}

void FakeDevice::FailNextAllocation(absl::Status error) {
  const MutexLock lock(mutex_);
  next_allocation_ = std::move(error);
}

std::span<std::byte> FakeDevice::Bytes(Region& region) { return BytesOf(region); }

size_t FakeDevice::held_count() const {
  const MutexLock lock(mutex_);
  return held_.size();
}

uint64_t FakeDevice::extent_count() const {
  const MutexLock lock(mutex_);
  return extent_count_;
}

void FakeDevice::Start(size_t extent_count, Work work, Completion done) {
  Operation operation{.work = std::move(work), .status = absl::OkStatus(), .done = std::move(done)};
  {
    const MutexLock lock(mutex_);
    extent_count_ += extent_count;
    operation.status = std::exchange(next_operation_, absl::OkStatus());
    if (holding_) {
      held_.push_back(std::move(operation));
      return;
    }
  }
  Finish(std::move(operation));
}

std::optional<FakeDevice::Operation> FakeDevice::TakeOldest() {
  const MutexLock lock(mutex_);
  if (held_.empty()) return std::nullopt;
  Operation operation = std::move(held_.front());
  held_.pop_front();
  return operation;
}

void FakeDevice::Finish(Operation operation) {
  if (operation.status.ok()) operation.work();
  operation.done(std::move(operation.status));
}

}  // namespace kvpool::test
