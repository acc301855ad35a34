// How long ways to clear and to copy many pieces take. Each is done a few times, and the best
// counts; every time includes waiting for the stream.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "core/device/cuda/kernel_module.h"
#include "tests/gpu/questions/gpu.h"
#include "tests/gpu/questions/question.h"

namespace kvpool::questions {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr uint64_t kKib = 1024;
constexpr uint64_t kGib = uint64_t{1} << 30;

Seconds Time(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::steady_clock::now() - begin;
}

Seconds BestOf(int times, const std::function<void()>& work) {
  Seconds best = Seconds::max();
  for (int i = 0; i < times; ++i) best = std::min(best, Time(work));
  return best;
}

std::string Text(Seconds seconds) { return absl::StrFormat("%.3f ms", seconds.count() * 1000.0); }

// Device memory for a scope.
class Memory {
 public:
  Memory(const Gpu& gpu, uint64_t size_bytes)
      : gpu_(gpu), result_(gpu.api().cuMemAlloc(&address_, size_bytes)) {}
  ~Memory() {
    if (result_ == Result::kSuccess) gpu_.api().cuMemFree(address_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Result result() const { return result_; }
  DevicePointer address() const { return address_; }

 private:
  const Gpu& gpu_;
  DevicePointer address_ = 0;
  const Result result_;
};

// Pinned host memory for a scope.
class Pinned {
 public:
  Pinned(const Gpu& gpu, uint64_t size_bytes) : gpu_(gpu) {
    const unsigned int flags = cuda::kHostAllocPortable | cuda::kHostAllocDeviceMap;
    if (gpu.api().cuMemHostAlloc(&data_, size_bytes, flags) != Result::kSuccess) data_ = nullptr;
  }
  ~Pinned() {
    if (data_ != nullptr) gpu_.api().cuMemFreeHost(data_);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  void* data() const { return data_; }  // Null where there is none.

 private:
  const Gpu& gpu_;
  void* data_ = nullptr;
};

// Pieces of 32 KiB, each with as much space after it, as many as the 160 layers of 64 blocks have;
// fewer where the device has little memory.
constexpr uint64_t kPieceBytes = 32 * kKib;
constexpr uint64_t kPitchBytes = 2 * kPieceBytes;
uint64_t PieceCount(const Gpu& gpu) {
  return std::clamp<uint64_t>(gpu.FreeBytes() / 32 / kPitchBytes, 1, 10'240);
}

void SayKernelClear(const Gpu& gpu, DevicePointer base, uint64_t count) {
  absl::StatusOr<std::unique_ptr<cuda::KernelModule>> kernels;
  const Seconds load = Time([&] { kernels = cuda::KernelModule::Load(gpu.context()); });
  if (!kernels.ok()) return Say(kernels.status().message());
  Say("the kernels' text is compiled, without the driver's cache, in " + Text(load));
  const Pinned list(gpu, count * sizeof(cuda::FillPiece));
  auto* const pieces = static_cast<cuda::FillPiece*>(list.data());
  if (pieces == nullptr) return Say("there is no pinned memory");
  for (uint64_t i = 0; i < count; ++i) {
    pieces[i] = {.to = base + i * kPitchBytes, .size = kPieceBytes};
  }
  absl::Status status;
  const Seconds time = BestOf(4, [&] {
    status = (*kernels)->Fill(gpu.stream(), pieces, count, kPieceBytes, 0);
    gpu.Synchronize();
  });
  Say(status.ok() ? "by a kernel " + Text(time) : std::string(status.message()));
}

// A pitch of more than 2^31 bytes.
void SayWidePitch(const Gpu& gpu) {
  constexpr uint64_t kWide = 2 * kGib + kPage;
  if (gpu.FreeBytes() < 2 * kWide) return SayNotAsked("a pitch over 2 GiB, for want of memory");
  const Memory memory(gpu, kWide + kPage);
  if (memory.result() != Result::kSuccess) return Say("cuMemAlloc: " + gpu.Text(memory.result()));
  Result result =
      gpu.api().cuMemsetD2D8Async(memory.address(), kWide, 0, kPieceBytes, 2, gpu.stream());
  if (result == Result::kSuccess) result = gpu.Synchronize();
  Say("cuMemsetD2D8Async of a pitch over 2 GiB: " + gpu.Text(result));
}

// Both declarations of cuMemcpyBatchAsync.
Result CopyBatch(const Gpu& gpu, std::vector<DevicePointer>& to, std::vector<DevicePointer>& from,
                 std::vector<size_t>& sizes) {
  cuda::CopyAttributes attributes{.source_access_order = cuda::kSourceAccessOrderStream,
                                  .source_hint = {},
                                  .destination_hint = {},
                                  .flags = 0};
  size_t first = 0;
  size_t failed = 0;
  const cuda::Api& api = gpu.api();
  if (api.cuMemcpyBatchAsync13 != nullptr) {
    return api.cuMemcpyBatchAsync13(to.data(), from.data(), sizes.data(), sizes.size(), &attributes,
                                    &first, 1, gpu.stream());
  }
  if (api.cuMemcpyBatchAsync12 != nullptr) {
    return api.cuMemcpyBatchAsync12(to.data(), from.data(), sizes.data(), sizes.size(), &attributes,
                                    &first, 1, &failed, gpu.stream());
  }
  return Result::kNotFound;
}

std::string Rate(uint64_t bytes, Seconds time) {
  return absl::StrFormat("%.1f", static_cast<double>(bytes) / 1e9 / time.count());
}

// "loop/batch", in GB/s.
std::string CopyRates(const Gpu& gpu, DevicePointer to, DevicePointer from, uint64_t total,
                      uint64_t piece) {
  std::vector<DevicePointer> destinations;
  std::vector<DevicePointer> sources;
  std::vector<size_t> sizes;
  // Every other piece first, so that neighbours cannot be taken as one.
  for (const uint64_t begin : {uint64_t{0}, piece}) {
    for (uint64_t offset = begin; offset + piece <= total; offset += 2 * piece) {
      destinations.push_back(to + offset);
      sources.push_back(from + offset);
      sizes.push_back(piece);
    }
  }
  const uint64_t bytes = piece * sizes.size();
  Result result = Result::kSuccess;
  const Seconds loop = BestOf(3, [&] {
    for (size_t i = 0; i < sizes.size() && result == Result::kSuccess; ++i) {
      result = gpu.api().cuMemcpyAsync(destinations[i], sources[i], piece, gpu.stream());
    }
    if (result == Result::kSuccess) result = gpu.Synchronize();
  });
  if (result != Result::kSuccess) return gpu.Text(result);
  const Seconds batch = BestOf(3, [&] {
    if (result == Result::kSuccess) result = CopyBatch(gpu, destinations, sources, sizes);
    if (result == Result::kSuccess) result = gpu.Synchronize();
  });
  return absl::StrCat(Rate(bytes, loop), "/",
                      result == Result::kSuccess ? Rate(bytes, batch) : gpu.Text(result));
}

std::string SizeText(uint64_t bytes) {
  return bytes >= kKib * kKib ? absl::StrCat(bytes / kKib / kKib, " MiB")
                              : absl::StrCat(bytes / kKib, " KiB");
}

void SayRates(const Gpu& gpu, DevicePointer device, void* host, uint64_t total) {
  const auto host_address = reinterpret_cast<DevicePointer>(host);
  std::string to_device;
  std::string to_host;
  for (const uint64_t piece : {8 * kKib, 32 * kKib, 512 * kKib, 2048 * kKib}) {
    const std::string size = absl::StrCat(to_device.empty() ? "" : ", ", SizeText(piece), " ");
    absl::StrAppend(&to_device, size, CopyRates(gpu, device, host_address, total, piece));
    absl::StrAppend(&to_host, size, CopyRates(gpu, host_address, device, total, piece));
  }
  Say("GB/s by a loop/by a batch, to the device: " + to_device);
  Say("to the host: " + to_host);
}

// Memory of the host's own that is pinned afterwards, as a shared file would be.
void SayRegistered(const Gpu& gpu, DevicePointer device, uint64_t total) {
  Result (*do_register)(void*, size_t, unsigned int) = nullptr;
  Result (*unregister)(void*) = nullptr;
  if (!FindCall("cuMemHostRegister_v2", do_register) ||
      !FindCall("cuMemHostUnregister", unregister)) {
    return SayNotAsked("memory pinned afterwards: the driver has no cuMemHostRegister_v2");
  }
  void* const memory = mmap(nullptr, total, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return SayNotAsked("memory pinned afterwards: mmap is refused");
  Result result = Result::kSuccess;
  const Seconds time = Time([&] { result = do_register(memory, total, cuda::kHostAllocPortable); });
  if (result != Result::kSuccess) {
    Say("cuMemHostRegister: " + gpu.Text(result));
  } else {
    Say(absl::StrFormat("cuMemHostRegister takes %.3f s per GiB",
                        time.count() * static_cast<double>(kGib) / static_cast<double>(total)));
    Say("such memory, 2 MiB, to the device: " +
        CopyRates(gpu, device, reinterpret_cast<DevicePointer>(memory), total, 2048 * kKib));
    unregister(memory);
  }
  munmap(memory, total);
}

}  // namespace

void AskZeroing() {
  setenv("CUDA_CACHE_DISABLE", "1", /*overwrite=*/1);
  const auto gpu = Gpu::OpenOrSay();
  if (gpu == nullptr) return;
  const uint64_t count = PieceCount(*gpu);
  const Memory memory(*gpu, count * kPitchBytes);
  if (memory.result() != Result::kSuccess) return Say("cuMemAlloc: " + gpu->Text(memory.result()));
  Say(absl::StrCat(count, " pieces of 32 KiB"));
  SayKernelClear(*gpu, memory.address(), count);
  Result result = Result::kSuccess;
  const Seconds loop = BestOf(3, [&] {
    for (uint64_t i = 0; i < count && result == Result::kSuccess; ++i) {
      result = gpu->api().cuMemsetD8Async(memory.address() + i * kPitchBytes, 0, kPieceBytes,
                                          gpu->stream());
    }
    if (result == Result::kSuccess) result = gpu->Synchronize();
  });
  Say(absl::StrCat("by a loop of memsets (", gpu->Text(result), ") ", Text(loop)));
  const Seconds at_once = BestOf(4, [&] {
    result = gpu->api().cuMemsetD2D8Async(memory.address(), kPitchBytes, 0, kPieceBytes, count,
                                          gpu->stream());
    if (result == Result::kSuccess) result = gpu->Synchronize();
  });
  Say(absl::StrCat("by one cuMemsetD2D8Async (", gpu->Text(result), ") ", Text(at_once)));
  SayWidePitch(*gpu);
}

void AskCopies() {
  const auto gpu = Gpu::OpenOrSay();
  if (gpu == nullptr) return;
  // 64 MiB is enough for a link's full rate; less where the device has little.
  const uint64_t total = std::clamp(gpu->FreeBytes() / 32 / kPage * kPage, kPage, 32 * kPage);
  const Memory memory(*gpu, total);
  const Pinned pinned(*gpu, total);
  if (memory.result() != Result::kSuccess) return Say("cuMemAlloc: " + gpu->Text(memory.result()));
  if (pinned.data() == nullptr) return Say("there is no pinned memory");
  SayRates(*gpu, memory.address(), pinned.data(), total);
  SayRegistered(*gpu, memory.address(), 4 * total);
}

}  // namespace kvpool::questions
