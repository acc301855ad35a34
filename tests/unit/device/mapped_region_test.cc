#include "core/device/mapped_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "core/device/host_region.h"
#include "tests/support/catch.h"
#include "tests/support/dies_in_child.h"
#include "tests/support/open_fds.h"

namespace kvpool {
namespace {

using Access = MappedRegion::Access;

constexpr uint64_t kSize = 3 * 4096 + 100;

static_assert(!std::is_copy_constructible_v<MappedRegion>);
static_assert(!std::is_copy_assignable_v<MappedRegion>);

std::unique_ptr<HostRegion> MakeRegion() {
  auto region = HostRegion::Create(kSize, "test");
  REQUIRE(region.ok());
  return *std::move(region);
}

// A memfd with the given seals.
class Memfd {
 public:
  explicit Memfd(int seals) : fd_(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    REQUIRE(fd_ >= 0);
    REQUIRE(ftruncate(fd_, kSize) == 0);
    REQUIRE(fcntl(fd_, F_ADD_SEALS, seals) == 0);
  }
  ~Memfd() { close(fd_); }
  Memfd(const Memfd&) = delete;
  Memfd& operator=(const Memfd&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

TEST_CASE("what is written through a mapping is in the region, and the reverse") {
  const auto region = MakeRegion();
  auto mapping = MappedRegion::Map(region->shared_fd(), kSize, Access::kReadWrite);
  REQUIRE(mapping.ok());
  REQUIRE(mapping->bytes().size() == kSize);
  mapping->mutable_bytes()[kSize - 1] = std::byte{0x42};
  CHECK(region->host_bytes()[kSize - 1] == std::byte{0x42});
  region->host_bytes()[0] = std::byte{0x24};
  CHECK(mapping->bytes()[0] == std::byte{0x24});
}

TEST_CASE("a read-only mapping sees the region and needs no right to write") {
  const auto region = MakeRegion();
  const std::string path = "/proc/self/fd/" + std::to_string(region->shared_fd());
  const int read_only = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(read_only >= 0);
  const auto mapping = MappedRegion::Map(read_only, kSize, Access::kReadOnly);
  REQUIRE(mapping.ok());
  region->host_bytes()[7] = std::byte{0x77};
  CHECK(mapping->bytes()[7] == std::byte{0x77});
  CHECK(MappedRegion::Map(read_only, kSize, Access::kReadWrite).status().code() ==
        absl::StatusCode::kInternal);
  close(read_only);
}

TEST_CASE("a region of another size than promised is refused with both sizes") {
  const auto region = MakeRegion();
  const uint64_t promised = GENERATE(uint64_t{0}, kSize - 1, kSize + 1, ~uint64_t{0});
  const absl::Status status =
      MappedRegion::Map(region->shared_fd(), promised, Access::kReadWrite).status();
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(status.message().find(std::to_string(kSize)) != absl::string_view::npos);
  CHECK(status.message().find(std::to_string(promised)) != absl::string_view::npos);
}

TEST_CASE("an fd that can still shrink or grow is refused with what is missing") {
  const Memfd can_shrink(F_SEAL_GROW);
  const Memfd can_grow(F_SEAL_SHRINK);
  const absl::Status shrinks =
      MappedRegion::Map(can_shrink.fd(), kSize, Access::kReadWrite).status();
  CHECK(shrinks.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(shrinks.message().find("shrinking") != absl::string_view::npos);
  const absl::Status grows = MappedRegion::Map(can_grow.fd(), kSize, Access::kReadWrite).status();
  CHECK(grows.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(grows.message().find("growing") != absl::string_view::npos);
}

TEST_CASE("an ordinary file, which cannot be sealed, is refused") {
  const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  const auto size = static_cast<uint64_t>(lseek(fd, 0, SEEK_END));
  CHECK(MappedRegion::Map(fd, size, Access::kReadOnly).status().code() ==
        absl::StatusCode::kFailedPrecondition);
  close(fd);
}

TEST_CASE("a number that is no open fd is an internal error") {
  CHECK(MappedRegion::Map(-1, kSize, Access::kReadOnly).status().code() ==
        absl::StatusCode::kInternal);
}

TEST_CASE("a mapping outlives the region and its fd, and keeps no fd") {
  auto region = MakeRegion();
  const ptrdiff_t before = test::OpenFdCount();
  const auto mapping = MappedRegion::Map(region->shared_fd(), kSize, Access::kReadOnly);
  REQUIRE(mapping.ok());
  CHECK(test::OpenFdCount() == before);
  region->host_bytes()[5] = std::byte{0x55};
  region.reset();
  CHECK(test::OpenFdCount() == before - 1);
  CHECK(mapping->bytes()[5] == std::byte{0x55});
}

TEST_CASE("a mapping moves") {
  const auto first = MakeRegion();
  const auto second = MakeRegion();
  first->host_bytes()[0] = std::byte{1};
  second->host_bytes()[0] = std::byte{2};
  auto a = MappedRegion::Map(first->shared_fd(), kSize, Access::kReadWrite);
  auto b = MappedRegion::Map(second->shared_fd(), kSize, Access::kReadOnly);
  REQUIRE(a.ok());
  REQUIRE(b.ok());
  const std::byte* const address = a->bytes().data();
  MappedRegion moved(*std::move(a));
  CHECK(moved.bytes().data() == address);
  CHECK(moved.mutable_bytes()[0] == std::byte{1});
  moved = *std::move(b);
  CHECK(moved.bytes()[0] == std::byte{2});
  // The mapping that `moved` had is gone with the assignment.
  CHECK(test::TouchingDiesInChild(address));
  MappedRegion& same = moved;
  moved = std::move(same);
  CHECK(moved.bytes()[0] == std::byte{2});
}

TEST_CASE("a forked child does not have a mapping") {
  const auto region = MakeRegion();
  const auto mapping = MappedRegion::Map(region->shared_fd(), kSize, Access::kReadOnly);
  REQUIRE(mapping.ok());
  CHECK(mapping->bytes()[0] == std::byte{0});
  CHECK(test::TouchingDiesInChild(mapping->bytes().data()));
}

TEST_CASE("writing through a read-only mapping ends the process by a check") {
  const auto region = MakeRegion();
  auto mapping = MappedRegion::Map(region->shared_fd(), kSize, Access::kReadOnly);
  REQUIRE(mapping.ok());
  CHECK(test::DiesInChild([&] { mapping->mutable_bytes(); }, SIGABRT));
}

}  // namespace
}  // namespace kvpool
