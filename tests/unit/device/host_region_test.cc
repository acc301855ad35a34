#include "core/device/host_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

#include "tests/support/catch.h"
#include "tests/support/dies_in_child.h"
#include "tests/support/open_fds.h"

namespace kvpool {
namespace {

constexpr uint64_t kPage = 4096;

// Lowers a limit of this process for a scope.
class LoweredLimit {
 public:
  LoweredLimit(decltype(RLIMIT_NOFILE) resource, rlim_t soft) : resource_(resource) {
    getrlimit(resource_, &before_);
    const rlimit lowered{.rlim_cur = soft, .rlim_max = before_.rlim_max};
    setrlimit(resource_, &lowered);
  }
  ~LoweredLimit() { setrlimit(resource_, &before_); }
  LoweredLimit(const LoweredLimit&) = delete;
  LoweredLimit& operator=(const LoweredLimit&) = delete;

 private:
  const decltype(RLIMIT_NOFILE) resource_;
  rlimit before_{};
};

bool AllAre(std::span<const std::byte> bytes, uint8_t value) {
  return std::ranges::all_of(bytes, [value](std::byte byte) { return byte == std::byte{value}; });
}

// What the kernel keeps of the mapping that `address` lies in, such as " rd wr sh dc hg ".
std::string MappingFlags(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  std::ifstream smaps("/proc/self/smaps");
  bool is_inside = false;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    // A mapping's first line begins with its range, the others with a capital.
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2) {
      is_inside = begin <= at && at < end;
    }
    constexpr absl::string_view kFlags = "VmFlags:";
    if (is_inside && absl::StartsWith(line, kFlags)) return line.substr(kFlags.size()) + " ";
  }
  return "";
}

// Whether this kernel takes the advice for memory of the kind.
bool TakesHugePageAdvice() {
  const int fd = memfd_create("probe", MFD_CLOEXEC);
  REQUIRE(fd >= 0);
  REQUIRE(ftruncate(fd, kPage) == 0);
  void* const data = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  REQUIRE(data != MAP_FAILED);
  const bool is_taken = madvise(data, kPage, MADV_HUGEPAGE) == 0;
  munmap(data, kPage);
  close(fd);
  return is_taken;
}

TEST_CASE("a region is zero, of exactly its size, and wholly allocated") {
  const uint64_t size = GENERATE(uint64_t{1}, kPage, kPage + 1, uint64_t{6912},
                                 (uint64_t{2} << 20) - 1, (uint64_t{2} << 20) + 1);
  CAPTURE(size);
  const auto region = HostRegion::Create(size, "test");
  REQUIRE(region.ok());
  CHECK((*region)->size_bytes() == size);
  REQUIRE((*region)->host_bytes().size() == size);
  CHECK(AllAre((*region)->host_bytes(), 0));
  struct stat file {};
  REQUIRE(fstat((*region)->shared_fd(), &file) == 0);
  CHECK(static_cast<uint64_t>(file.st_size) == size);
  CHECK(static_cast<uint64_t>(file.st_blocks) * 512 >= size);
}

TEST_CASE("a region asks for huge pages where the kernel has them, and is no forked child's") {
  const auto region = HostRegion::Create(uint64_t{4} << 20, "test");
  REQUIRE(region.ok());
  const std::string flags = MappingFlags((*region)->host_bytes().data());
  CAPTURE(flags);
  CHECK(absl::StrContains(flags, " sh "));
  CHECK(absl::StrContains(flags, " dc "));
  CHECK(absl::StrContains(flags, " hg ") == TakesHugePageAdvice());
}

TEST_CASE("a region of zero bytes is an invalid argument") {
  CHECK(HostRegion::Create(0, "test").status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("a region larger than any file is refused as too large") {
  const uint64_t size = GENERATE(std::numeric_limits<uint64_t>::max(), uint64_t{1} << 63);
  CHECK(HostRegion::Create(size, "test").status().code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("a region's fd is its owner's alone and closed on exec") {
  const auto region = HostRegion::Create(kPage, "test");
  REQUIRE(region.ok());
  struct stat file {};
  REQUIRE(fstat((*region)->shared_fd(), &file) == 0);
  CHECK((file.st_mode & 07777) == 0600);
  CHECK((fcntl((*region)->shared_fd(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a region can be neither shrunk nor grown nor sealed further through a copy of its fd") {
  const auto region = HostRegion::Create(2 * kPage, "test");
  REQUIRE(region.ok());
  const int copy = dup((*region)->shared_fd());
  REQUIRE(copy >= 0);
  CHECK(ftruncate(copy, kPage) == -1);
  CHECK(errno == EPERM);
  CHECK(ftruncate(copy, 0) == -1);
  CHECK(ftruncate(copy, 3 * kPage) == -1);
  CHECK(errno == EPERM);
  CHECK(fallocate(copy, 0, 0, 3 * kPage) == -1);
  CHECK(fcntl(copy, F_ADD_SEALS, F_SEAL_WRITE) == -1);
  CHECK(errno == EPERM);
  CHECK(fcntl(copy, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == -1);
  close(copy);
  CHECK(AllAre((*region)->host_bytes(), 0));
}

TEST_CASE("a hole that another mapping punches reads as zeros and can be written again") {
  const auto region = HostRegion::Create(4 * kPage, "test");
  REQUIRE(region.ok());
  const std::span<std::byte> bytes = (*region)->host_bytes();
  std::ranges::fill(bytes, std::byte{0xAB});
  void* other =
      mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, (*region)->shared_fd(), 0);
  REQUIRE(other != MAP_FAILED);
  REQUIRE(madvise(static_cast<std::byte*>(other) + kPage, 2 * kPage, MADV_REMOVE) == 0);
  CHECK(AllAre(bytes.subspan(0, kPage), 0xAB));
  CHECK(AllAre(bytes.subspan(kPage, 2 * kPage), 0));
  CHECK(AllAre(bytes.subspan(3 * kPage), 0xAB));
  std::ranges::fill(bytes, std::byte{0xCD});
  CHECK(AllAre(std::span(static_cast<const std::byte*>(other), 4 * kPage), 0xCD));
  munmap(other, 4 * kPage);
}

TEST_CASE("a mapping made through a region's fd outlives the region") {
  auto region = HostRegion::Create(kPage, "test");
  REQUIRE(region.ok());
  void* other = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, (*region)->shared_fd(), 0);
  REQUIRE(other != MAP_FAILED);
  std::ranges::fill((*region)->host_bytes(), std::byte{0x5A});
  region->reset();
  CHECK(AllAre(std::span(static_cast<const std::byte*>(other), kPage), 0x5A));
  munmap(other, kPage);
}

TEST_CASE("a forked child does not have a region's mapping") {
  const auto region = HostRegion::Create(kPage, "test");
  REQUIRE(region.ok());
  CHECK(test::TouchingDiesInChild((*region)->host_bytes().data()));
}

TEST_CASE("a region shows by its name, cut to what the kernel takes") {
  const std::string name = "kvpool-" + std::string(400, 'x');
  const auto region = HostRegion::Create(kPage, name);
  REQUIRE(region.ok());
  std::ifstream maps("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>()};
  CHECK(text.find("memfd:kvpool-xxx") != std::string::npos);
}

TEST_CASE("a region gives back its fd") {
  const ptrdiff_t before = test::OpenFdCount();
  {
    const auto region = HostRegion::Create(kPage, "test");
    REQUIRE(region.ok());
    CHECK(test::OpenFdCount() == before + 1);
  }
  CHECK(test::OpenFdCount() == before);
}

TEST_CASE("without a file descriptor left a region is refused as exhausted") {
  const LoweredLimit no_fds(RLIMIT_NOFILE, 0);
  CHECK(HostRegion::Create(kPage, "test").status().code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("a failure half-way is an internal error that names the call and leaves no fd") {
  const ptrdiff_t before = test::OpenFdCount();
  auto* const old_handler = std::signal(SIGXFSZ, SIG_IGN);
  absl::Status status;
  {
    const LoweredLimit small_files(RLIMIT_FSIZE, kPage);
    status = HostRegion::Create(2 * kPage, "test").status();
  }
  std::signal(SIGXFSZ, old_handler);
  CHECK(status.code() == absl::StatusCode::kInternal);
  CHECK(status.message().find("posix_fallocate") != absl::string_view::npos);
  CHECK(test::OpenFdCount() == before);
}

}  // namespace
}  // namespace kvpool
