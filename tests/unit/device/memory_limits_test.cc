#include "core/device/memory_limits.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

namespace kvpool {
namespace {

constexpr uint64_t kGib = uint64_t{1} << 30;

// A tree of kernel files, with 64 GiB in the node of which 48 are available.
class FakeKernel {
 public:
  FakeKernel() {
    Write("/proc/meminfo",
          "MemTotal:       67108864 kB\nMemFree:        1024 kB\n"
          "MemAvailable:   50331648 kB\nHugePages_Total:       0\n");
  }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  void WriteCgroupV2(const std::string& directory, const std::string& limit, uint64_t use,
                     uint64_t inactive_file = 0) {
    Write(directory + "/memory.max", limit + "\n");
    Write(directory + "/memory.current", std::to_string(use) + "\n");
    Write(directory + "/memory.stat",
          "anon 4096\ninactive_file " + std::to_string(inactive_file) + "\n");
  }
  void UseV2(const std::string& path, const std::string& mount_root = "/") {
    Write("/proc/self/cgroup", "0::" + path + "\n");
    Write("/proc/self/mountinfo", "35 25 0:30 " + mount_root +
                                      " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 "
                                      "rw,nsdelegate\n");
  }

  std::string root() const { return dir_.path(); }

 private:
  test::TempDir dir_;
};

TEST_CASE("meminfo gives the node's total and available bytes") {
  const auto memory = ParseMeminfo("MemTotal:  2 kB\nMemAvailable: 1 kB\n");
  REQUIRE(memory.ok());
  CHECK(memory->total_bytes == 2048);
  CHECK(memory->free_bytes == 1024);
}

TEST_CASE("meminfo without a figure is an internal error that names it") {
  const std::string text =
      GENERATE("", "MemTotal: 2 kB\nMemFree: 1 kB\n", "MemTotal: 2 kB\nMemAvailable: x kB\n",
               "MemTotal: 2 kB\nMemAvailable: 1 MB\n",
               "MemTotal: 2 kB\nMemAvailable: 18446744073709551615 kB\n");
  CAPTURE(text);
  const auto memory = ParseMeminfo(text);
  CHECK(memory.status().code() == absl::StatusCode::kInternal);
  const std::string missing = text.empty() ? "MemTotal" : "MemAvailable";
  CHECK(memory.status().message().find(missing) != absl::string_view::npos);
}

TEST_CASE("cgroup membership is found in both hierarchies") {
  const CgroupPaths paths = ParseCgroupMembership(
      "12:cpu,cpuacct:/a\n5:hugetlb,memory:/slice/with:colon\n1:name=memory:/no\n0::/unified\n");
  CHECK(paths == CgroupPaths{.v2 = "/unified", .v1 = "/slice/with:colon"});
  CHECK(ParseCgroupMembership("") == CgroupPaths{});
}

TEST_CASE("cgroup mounts are told apart by type and controller") {
  const CgroupMounts mounts = ParseCgroupMounts(
      "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "33 25 0:28 / /sys/fs/cgroup/cpu rw,nosuid shared:10 - cgroup cgroup rw,cpu\n"
      "34 25 0:29 /docker/x /sys/fs/cgroup/memory rw master:1 shared:2 - cgroup cgroup rw,memory\n"
      "35 25 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
      "36 25 0:30 / /elsewhere rw - cgroup2 cgroup2 rw\n");
  CHECK(mounts.v1 == CgroupMount{.root = "/docker/x", .mount_point = "/sys/fs/cgroup/memory"});
  CHECK(mounts.v2 == CgroupMount{.root = "/", .mount_point = "/sys/fs/cgroup/unified"});
  CHECK(ParseCgroupMounts("nonsense\n1 2 - cgroup2\n") == CgroupMounts{});
}

TEST_CASE("a cgroup figure is a number or max") {
  CHECK(ParseCgroupBytes("4096\n").value() == 4096);
  CHECK(ParseCgroupBytes("max\n").value() == std::numeric_limits<uint64_t>::max());
  CHECK(ParseCgroupBytes("").status().code() == absl::StatusCode::kInternal);
  CHECK(ParseCgroupBytes("-1\n").status().code() == absl::StatusCode::kInternal);
}

TEST_CASE("a cgroup statistic is found by its whole name") {
  const std::string text = "total_inactive_file 1\ninactive_file_x 2\ninactive_file 3\n";
  CHECK(ParseCgroupStat(text, "inactive_file") == 3);
  CHECK(ParseCgroupStat(text, "active_file") == 0);
}

TEST_CASE("without cgroups the node's own figures count") {
  const FakeKernel kernel;
  const auto memory = ReadMemoryLimits(kernel.root());
  REQUIRE(memory.ok());
  CHECK(memory->total_bytes == 64 * kGib);
  CHECK(memory->free_bytes == 48 * kGib);
}

TEST_CASE("without meminfo reading the limits is an internal error") {
  const test::TempDir empty;
  CHECK(ReadMemoryLimits(empty.path().string()).status().code() == absl::StatusCode::kInternal);
}

TEST_CASE("every cgroup above the process's own counts, the least of them most") {
  FakeKernel kernel;
  kernel.UseV2("/kube/pod/app");
  kernel.WriteCgroupV2("/sys/fs/cgroup/kube/pod/app", "max", 3 * kGib);
  kernel.WriteCgroupV2("/sys/fs/cgroup/kube/pod", std::to_string(40 * kGib), 4 * kGib);
  kernel.WriteCgroupV2("/sys/fs/cgroup/kube", std::to_string(50 * kGib), 45 * kGib);
  kernel.WriteCgroupV2("/sys/fs/cgroup/other", std::to_string(kGib), 0);
  const auto memory = ReadMemoryLimits(kernel.root());
  REQUIRE(memory.ok());
  CHECK(memory->total_bytes == 40 * kGib);
  CHECK(memory->free_bytes == 5 * kGib);
}

TEST_CASE("a cgroup's clean file pages are available") {
  FakeKernel kernel;
  kernel.UseV2("/app");
  kernel.WriteCgroupV2("/sys/fs/cgroup/app", std::to_string(8 * kGib), 7 * kGib, 5 * kGib);
  CHECK(ReadMemoryLimits(kernel.root()).value().free_bytes == 6 * kGib);
}

TEST_CASE("a cgroup over its limit has nothing left") {
  FakeKernel kernel;
  kernel.UseV2("/app");
  kernel.WriteCgroupV2("/sys/fs/cgroup/app", std::to_string(kGib), 2 * kGib);
  CHECK(ReadMemoryLimits(kernel.root()).value().free_bytes == 0);
}

TEST_CASE("a cgroup is found below a mount that shows only a part of the hierarchy") {
  FakeKernel kernel;
  kernel.UseV2("/docker/abc/app", "/docker/abc");
  kernel.WriteCgroupV2("/sys/fs/cgroup/app", std::to_string(8 * kGib), kGib);
  kernel.WriteCgroupV2("/sys/fs/cgroup", std::to_string(4 * kGib), kGib);
  CHECK(ReadMemoryLimits(kernel.root()).value().free_bytes == 3 * kGib);
}

TEST_CASE("a cgroup that the mount does not show leaves the mount's own root") {
  FakeKernel kernel;
  kernel.UseV2(GENERATE("/../sibling", "/host/path"), "/docker/abc");
  kernel.WriteCgroupV2("/sys/fs/cgroup", std::to_string(4 * kGib), kGib);
  CHECK(ReadMemoryLimits(kernel.root()).value().free_bytes == 3 * kGib);
}

TEST_CASE("a v1 memory cgroup counts as a v2 one does") {
  FakeKernel kernel;
  kernel.Write("/proc/self/cgroup", "4:memory:/a/b\n0::/\n");
  kernel.Write("/proc/self/mountinfo",
               "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
               "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  const std::string top = "/sys/fs/cgroup/memory";
  kernel.Write(top + "/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  kernel.Write(top + "/a/b/memory.usage_in_bytes", "4096\n");
  kernel.Write(top + "/a/memory.limit_in_bytes", std::to_string(16 * kGib) + "\n");
  kernel.Write(top + "/a/memory.usage_in_bytes", std::to_string(10 * kGib) + "\n");
  kernel.Write(top + "/a/memory.stat",
               "inactive_file 1\ntotal_inactive_file " + std::to_string(kGib) + "\n");
  const auto memory = ReadMemoryLimits(kernel.root());
  REQUIRE(memory.ok());
  CHECK(memory->total_bytes == 16 * kGib);
  CHECK(memory->free_bytes == 7 * kGib);
}

TEST_CASE("a cgroup file that makes no sense is an internal error that names it") {
  FakeKernel kernel;
  kernel.UseV2("/app");
  kernel.WriteCgroupV2("/sys/fs/cgroup/app", "plenty", 0);
  const auto memory = ReadMemoryLimits(kernel.root());
  CHECK(memory.status().code() == absl::StatusCode::kInternal);
  CHECK(memory.status().message().find("/app/memory.max") != absl::string_view::npos);
}

TEST_CASE("the limits of this very process can be read") {
  const auto memory = ReadMemoryLimits();
  REQUIRE(memory.ok());
  CHECK(memory->total_bytes > 0);
  CHECK(memory->free_bytes > 0);
  CHECK(memory->free_bytes <= memory->total_bytes);
}

}  // namespace
}  // namespace kvpool
