// The kernels, from their own source on the CPU: what they do at every alignment, and that their
// sums are the host's. That the committed PTX has the same parameters, the fake driver checks.
#include "core/device/cuda/kernel_module.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/memory/checksum.h"
#include "tests/support/random.h"
#include "tests/unit/cuda/fixture.h"
#include "tests/unit/cuda/says.h"

namespace kvpool::cuda {
namespace {

// Device memory and lists of pieces, on a lane with the kernels.
class KernelBench {
 public:
  KernelBench() : region_(gpu_.Allocate(kBytes)) {
    auto context =
        DeviceContext::Retain(gpu_.driver(), FindDevice(*gpu_.driver(), "cuda:0").value());
    REQUIRE(context.ok());
    context_ = *context;
    const DeviceContext::Scope scope(*context_);
    auto kernels = KernelModule::Load(context_);
    REQUIRE(kernels.ok());
    kernels_ = *std::move(kernels);
    auto lane = Lane::Create(context_, kernels_.get(), "test");
    REQUIRE(lane.ok());
    lane_ = *std::move(lane);
    void* pinned = nullptr;
    REQUIRE(context_->api().cuMemHostAlloc(&pinned, kBytes, 0) == Result::kSuccess);
    pinned_ = static_cast<std::byte*>(pinned);
  }
  ~KernelBench() {
    const DeviceContext::Scope scope(*context_);
    context_->api().cuMemFreeHost(pinned_);
  }

  KernelBench(const KernelBench&) = delete;
  KernelBench& operator=(const KernelBench&) = delete;

  static constexpr uint64_t kBytes = 1 << 20;

  FakeGpu& gpu() { return gpu_; }
  Region& region() { return *region_; }
  DevicePointer base() const { return dynamic_cast<CudaRegion&>(*region_).base(); }
  // Pinned memory, for lists and results.
  template <typename T>
  T* Pinned(size_t index = 0) {
    return reinterpret_cast<T*>(pinned_ + index);
  }
  absl::Status Do(Lane::Work work) {
    Ending ending;
    lane_->Post(std::move(work), ending.Take());
    return ending.Wait();
  }
  void WriteAt(uint64_t offset, std::span<const std::byte> bytes) {
    const std::vector<Extent> extents{{.offset_bytes = offset, .size_bytes = bytes.size()}};
    REQUIRE(gpu_.Write(*region_, extents, bytes).ok());
  }

 private:
  FakeGpu gpu_;
  std::unique_ptr<Region> region_;
  std::shared_ptr<DeviceContext> context_;
  std::unique_ptr<KernelModule> kernels_;
  std::unique_ptr<Lane> lane_;
  std::byte* pinned_ = nullptr;
};

TEST_CASE("the fill kernel sets the bytes of a piece at any alignment, and no others") {
  KernelBench bench;
  const std::vector<uint64_t> sizes = {0, 1, 15, 16, 17, 31, 32, 33, 100};
  std::vector<std::byte> expected(KernelBench::kBytes);
  uint64_t count = 0;
  for (uint64_t shift = 0; shift < 16; ++shift) {
    for (const uint64_t size : sizes) {
      const uint64_t offset = 256 * count + shift;
      bench.Pinned<FillPiece>()[count++] = {.to = bench.base() + offset, .size = size};
      std::fill_n(expected.begin() + static_cast<ptrdiff_t>(offset), size, std::byte{0xC3});
    }
  }
  REQUIRE(bench
              .Do([&](Lane& lane) {
                return lane.kernels()->Fill(lane.stream(), bench.Pinned<FillPiece>(), count, 100,
                                            0xC3);
              })
              .ok());
  CHECK(bench.gpu().ReadAll(bench.region()) == expected);
}

TEST_CASE("the copy kernel copies the bytes of a piece at any two alignments, and no others") {
  KernelBench bench;
  std::vector<std::byte> expected(KernelBench::kBytes);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<std::byte>(i % 253);
  bench.WriteAt(0, expected);
  const uint64_t half = KernelBench::kBytes / 2;
  uint64_t count = 0;
  for (uint64_t to_shift = 0; to_shift < 16; to_shift += 3) {
    for (uint64_t from_shift = 0; from_shift < 16; from_shift += 3) {
      for (const uint64_t size : {uint64_t{1}, uint64_t{16}, uint64_t{77}, uint64_t{160}}) {
        const uint64_t from = 512 * count + from_shift;
        const uint64_t to = half + 512 * count + to_shift;
        bench.Pinned<CopyPiece>()[count++] = {
            .to = bench.base() + to, .from = bench.base() + from, .size = size};
        std::copy_n(expected.begin() + static_cast<ptrdiff_t>(from), size,
                    expected.begin() + static_cast<ptrdiff_t>(to));
      }
    }
  }
  REQUIRE(bench
              .Do([&](Lane& lane) {
                return lane.kernels()->Copy(lane.stream(), bench.Pinned<CopyPiece>(), count, 160);
              })
              .ok());
  CHECK(bench.gpu().ReadAll(bench.region()) == expected);
}

TEST_CASE("one long piece is shared by many blocks of threads") {
  KernelBench bench;
  constexpr uint64_t kLong = 200'003;
  bench.Pinned<FillPiece>()[0] = {.to = bench.base() + 5, .size = kLong};
  REQUIRE(bench
              .Do([&](Lane& lane) {
                return lane.kernels()->Fill(lane.stream(), bench.Pinned<FillPiece>(), 1, kLong, 1);
              })
              .ok());
  std::vector<std::byte> expected(KernelBench::kBytes);
  std::fill_n(expected.begin() + 5, kLong, std::byte{1});
  CHECK(bench.gpu().ReadAll(bench.region()) == expected);
}

TEST_CASE("a kernel that is given host memory that is not pinned ends the context") {
  KernelBench bench;
  const FillPiece on_the_stack{.to = bench.base(), .size = 1};
  CheckRefused(bench.Do([&](Lane& lane) {
    return lane.kernels()->Fill(lane.stream(), &on_the_stack, 1, 1, 0);
  }),
               absl::StatusCode::kFailedPrecondition, Reason::kDeviceFailed, {"(700)"});
}

// What the host makes of the same bytes.
SideChecksum HostSums(Dtype dtype, std::span<const std::byte> bytes) {
  ChecksumBuilder builder(dtype);
  builder.Add(bytes);
  return builder.Result();
}

struct Format {
  Dtype dtype;
  ElementFormat format;
};

TEST_CASE("the sum kernel decodes every element as the host does") {
  KernelBench bench;
  const Format format =
      GENERATE(Format{Dtype::kFp8, ElementFormat::kFp8}, Format{Dtype::kFp16, ElementFormat::kFp16},
               Format{Dtype::kBf16, ElementFormat::kBf16});
  // Every value of 16 bits, which is every pair of 8, each by itself: a part has one word, and the
  // other half of it is zero.
  constexpr uint32_t kValues = 1 << 16;
  constexpr uint32_t kPieces = 4096;
  for (uint32_t first = 0; first < kValues; first += kPieces) {
    std::vector<uint32_t> words(kPieces);
    for (uint32_t i = 0; i < kPieces; ++i) {
      words[i] = first + i;
      bench.Pinned<SumPiece>()[i] = {.from = bench.base() + i * 4, .size = 4, .first_part = i};
    }
    bench.WriteAt(0, std::as_bytes(std::span(words)));
    auto* const results = bench.Pinned<PartSums>(kPieces * sizeof(SumPiece));
    REQUIRE(bench
                .Do([&](Lane& lane) {
                  return lane.kernels()->Sum(lane.stream(), bench.Pinned<SumPiece>(), kPieces,
                                             results, kPieces, format.format);
                })
                .ok());
    for (uint32_t i = 0; i < kPieces; ++i) {
      const SideChecksum host = HostSums(format.dtype, std::as_bytes(std::span(&words[i], 1)));
      CAPTURE(words[i]);
      REQUIRE(results[i].nan_count == host.nan_count);
      REQUIRE(results[i].sum == host.sum);
      REQUIRE(results[i].sum_of_squares == host.sum_of_squares);
      REQUIRE(results[i].sum_of_absolutes == host.sum_of_absolutes);
    }
  }
}

TEST_CASE("the sum kernel finds each part's piece, and cuts pieces into parts") {
  const uint64_t seed = test::Seed();
  CAPTURE(seed);
  test::Random random(seed);
  KernelBench bench;
  std::vector<std::byte> bytes(KernelBench::kBytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Below(256));
  bench.WriteAt(0, bytes);
  struct Part {
    uint64_t offset = 0;
    uint64_t size = 0;
  };
  std::vector<Part> parts;
  constexpr size_t kPieces = 50;
  for (size_t i = 0; i < kPieces; ++i) {
    const uint64_t size = 4 * (1 + random.Below(2500));
    const uint64_t offset = 4 * random.Below(200'000);
    bench.Pinned<SumPiece>()[i] = {
        .from = bench.base() + offset, .size = size, .first_part = parts.size()};
    for (uint64_t done = 0; done < size; done += kPartBytes) {
      parts.push_back({.offset = offset + done, .size = std::min(kPartBytes, size - done)});
    }
  }
  auto* const results = bench.Pinned<PartSums>(kPieces * sizeof(SumPiece));
  const ElementFormat format = GENERATE(ElementFormat::kFp32, ElementFormat::kNone);
  REQUIRE(bench
              .Do([&](Lane& lane) {
                return lane.kernels()->Sum(lane.stream(), bench.Pinned<SumPiece>(), kPieces,
                                           results, parts.size(), format);
              })
              .ok());
  for (size_t i = 0; i < parts.size(); ++i) {
    CAPTURE(i);
    const auto part = std::span(bytes).subspan(parts[i].offset, parts[i].size);
    const SideChecksum host =
        HostSums(format == ElementFormat::kFp32 ? Dtype::kFp32 : Dtype::kRaw, part);
    CHECK(results[i].nan_count == host.nan_count);
    CHECK(results[i].sum_of_squares == host.sum_of_squares);
    CHECK(results[i].sum_of_absolutes == host.sum_of_absolutes);
    // The kernel's register starts as 0, the host's as all ones, which differs by the length only.
    const std::vector<std::byte> zeros(part.size());
    const uint32_t of_zeros = HostSums(Dtype::kRaw, zeros).crc32c;
    CHECK((results[i].crc ^ of_zeros) == host.crc32c);
  }
}

TEST_CASE("a kernel that the driver does not find is said by its call") {
  FakeGpu gpu;
  const std::string nth = GENERATE("1", "2", "3");
  fakecuda_set("FAKECUDA_FAIL", ("cuModuleGetFunction:" + nth + ":500").c_str());
  CheckRefused(gpu.device().kernel_status(), absl::StatusCode::kInternal, Reason::kDevice,
               {"cuModuleGetFunction", "(500)"});
}

}  // namespace
}  // namespace kvpool::cuda
