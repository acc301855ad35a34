// Reading and writing through the mapping of a region, as a worker does, against memcpy between
// private buffers: the ratio of medians, taken in turn in one run. Target: at least 0.95.
//
//   mapping_bench [--benchmark_filter=...]
//
// `ratio` is the mapping's bytes a second over the private copy's.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <benchmark/benchmark.h>

#include "core/check.h"
#include "core/device/host_region.h"
#include "core/device/mapped_region.h"

namespace kvpool {
namespace {

using Seconds = std::chrono::duration<double>;

Seconds TimeCopy(std::span<std::byte> to, std::span<const std::byte> from) {
  const auto start = std::chrono::steady_clock::now();
  std::memcpy(to.data(), from.data(), from.size());
  benchmark::ClobberMemory();
  return std::chrono::steady_clock::now() - start;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Memory of this process alone, at a page's start as a mapping is: how two buffers lie to each
// other shows in the copies of small ones.
class PrivateBuffer {
 public:
  explicit PrivateBuffer(size_t size_bytes)
      : data_(static_cast<std::byte*>(std::aligned_alloc(4096, size_bytes))),
        size_bytes_(size_bytes) {
    KVPOOL_CHECK(data_ != nullptr);
    std::ranges::fill(bytes(), std::byte{1});
  }
  ~PrivateBuffer() { std::free(data_); }
  PrivateBuffer(const PrivateBuffer&) = delete;
  PrivateBuffer& operator=(const PrivateBuffer&) = delete;

  std::span<std::byte> bytes() const { return {data_, size_bytes_}; }

 private:
  std::byte* const data_;
  const size_t size_bytes_;
};

// A region as the daemon makes it, mapped as a worker maps it, beside private buffers of its size.
struct Buffers {
  explicit Buffers(size_t size_bytes)
      : region(HostRegion::Create(size_bytes, "bench").value()),
        mapping(MappedRegion::Map(region->shared_fd(), size_bytes, MappedRegion::Access::kReadWrite)
                    .value()),
        first(size_bytes),
        second(size_bytes) {
    // Page faults are no part of the steady state.
    std::ranges::fill(mapping.mutable_bytes(), std::byte{3});
  }

  const std::unique_ptr<HostRegion> region;
  MappedRegion mapping;
  const PrivateBuffer first;
  const PrivateBuffer second;
};

enum class Direction { kRead, kWrite };

void BM_Mapping(benchmark::State& state, Direction direction) {
  const auto size_bytes = static_cast<size_t>(state.range(0));
  Buffers buffers(size_bytes);
  std::vector<double> through_mapping;
  std::vector<double> between_private;
  bool is_mapping_first = false;
  for (auto _ : state) {
    // Neither of the two is always the one that finds the caches as the other left them.
    is_mapping_first = !is_mapping_first;
    for (const bool is_mapping : {is_mapping_first, !is_mapping_first}) {
      if (!is_mapping) {
        between_private.push_back(TimeCopy(buffers.second.bytes(), buffers.first.bytes()).count());
      } else if (direction == Direction::kRead) {
        through_mapping.push_back(
            TimeCopy(buffers.second.bytes(), buffers.mapping.bytes()).count());
      } else {
        through_mapping.push_back(
            TimeCopy(buffers.mapping.mutable_bytes(), buffers.first.bytes()).count());
      }
    }
    state.SetIterationTime(through_mapping.back());
  }
  const double mapping_s = Median(through_mapping);
  const double private_s = Median(between_private);
  state.counters["ratio"] = private_s / mapping_s;
  state.counters["mapping_GB/s"] = static_cast<double>(size_bytes) / mapping_s / 1e9;
  state.counters["memcpy_GB/s"] = static_cast<double>(size_bytes) / private_s / 1e9;
}

// From a side of a block, which caches hold, to more than any cache has.
BENCHMARK_CAPTURE(BM_Mapping, read, Direction::kRead)
    ->Arg(32 << 10)
    ->Arg(4 << 20)
    ->Arg(256 << 20)
    ->UseManualTime();
BENCHMARK_CAPTURE(BM_Mapping, write, Direction::kWrite)
    ->Arg(32 << 10)
    ->Arg(4 << 20)
    ->Arg(256 << 20)
    ->UseManualTime();

}  // namespace
}  // namespace kvpool

BENCHMARK_MAIN();
