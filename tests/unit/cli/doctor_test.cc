#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "client/cli/doctor/daemon_checks.h"
#include "client/cli/doctor/finding.h"
#include "client/cli/doctor/gpu_checks.h"
#include "client/cli/doctor/gpu_list.h"
#include "client/cli/doctor/process_checks.h"
#include "client/cli/doctor/socket_checks.h"
#include "client/owned_fd.h"
#include "core/error.h"
#include "kvpool/v1/inspect.pb.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/cli/run_cli.h"

namespace kvpool::cli {
namespace {

using test::CliFixture;
using test::CliResult;

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Whether one of them has that verdict, check and text.
bool Has(const std::vector<Finding>& findings, Verdict verdict, const std::string& check,
         const std::string& part) {
  return std::ranges::any_of(findings, [&](const Finding& finding) {
    return finding.verdict == verdict && std::string(finding.check) == check &&
           Has(finding.text, part);
  });
}

v1::GetDaemonResponse Daemon() {
  v1::GetDaemonResponse daemon;
  daemon.set_version(KVPOOL_VERSION);
  daemon.set_daemon_epoch("e1");
  daemon.add_devices()->set_kind(v1::DEVICE_KIND_HOST);
  daemon.set_reclaim_proof(v1::RECLAIM_PROOF_PIDFD);
  return daemon;
}

v1::GetDaemonResponse WithGpu(const std::string& uuid) {
  v1::GetDaemonResponse daemon = Daemon();
  v1::Device& gpu = *daemon.add_devices();
  gpu.set_kind(v1::DEVICE_KIND_CUDA);
  gpu.set_uuid(uuid);
  gpu.set_name("H200");
  return daemon;
}

DeviceInfo Gpu(const std::string& uuid) {
  return {.kind = DeviceKind::kCuda, .uuid = uuid, .name = "H200"};
}

absl::Status NoDriver() {
  return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDevice},
                   "no libcuda.so.1");
}

TEST_CASE("doctor exits with 0 where nothing fails, and shows a line a check") {
  CliFixture fixture;
  fixture.daemon.Answer("GetDaemon", Daemon());
  const CliResult result = fixture.Run({"doctor"});
  CAPTURE(result.out);
  CHECK(result.code == ExitCode::kOk);
  CHECK(result.errors.empty());
  CHECK(Has(result.out, "  daemon         version " KVPOOL_VERSION ", epoch e1\n"));
  CHECK(Has(result.out, "  state          serving\n"));
  CHECK(Has(result.out, "  reclaim proof  pidfd"));
  for (const char* check : {"socket", "directory", "gpus", "open files", "memory"}) {
    CAPTURE(check);
    CHECK(Has(result.out, "  " + std::string(check) + "  "));
  }
}

TEST_CASE("doctor as JSON has the same checks, in order") {
  CliFixture fixture;
  v1::GetDaemonResponse daemon = Daemon();
  daemon.add_warnings("a \"quoted\" warning");
  fixture.daemon.Answer("GetDaemon", daemon);
  const CliResult result = fixture.Run({"doctor", "--json"});
  CHECK(result.code == ExitCode::kOk);
  CHECK(result.out.find("{") == 0);
  CHECK(Has(result.out, R"("check" : "warning")"));
  CHECK(Has(result.out, R"("result" : "WARN")"));
  CHECK(Has(result.out, R"("text" : "a \"quoted\" warning")"));
  CHECK(result.out.find("\"daemon\"") < result.out.find("\"memory\""));
}

TEST_CASE("doctor exits with 1 where something fails") {
  CliFixture fixture;
  v1::GetDaemonResponse daemon = WithGpu("GPU-a");
  daemon.add_warnings("GPU-a (H200): CUDA IPC could not be tested: no room");
  fixture.daemon.Answer("GetDaemon", daemon);
  const CliResult result = fixture.Run({"doctor"});
  CAPTURE(result.out);
  CHECK(result.code == ExitCode::kRefused);
  CHECK(Has(result.out, "FAIL  cuda ipc       GPU-a (H200): CUDA IPC could not be tested"));
  CHECK_FALSE(Has(result.out, "warning"));
  CHECK(Has(result.out, "locked memory"));
  CHECK(Has(result.out, "pids"));
}

TEST_CASE("doctor goes on where no daemon answers, and exits with 3") {
  const test::TempDir directory;
  const std::string socket = "unix:" + directory.File("absent.sock");
  const CliResult result = test::RunCli({"doctor"}, {.socket = socket});
  CAPTURE(result.out);
  CHECK(result.code == ExitCode::kUnreachable);
  CHECK(Has(result.out, "FAIL  daemon"));
  CHECK(Has(result.out, "no daemon answers at " + socket));
  CHECK(Has(result.out, "FAIL  socket"));
  CHECK(Has(result.out, "start kvpoold"));
  CHECK(Has(result.out, "memory"));
}

TEST_CASE("doctor exits with 1 where the daemon refuses to tell") {
  CliFixture fixture;
  fixture.daemon.Fail("GetDaemon", absl::StatusCode::kPermissionDenied, Reason::kUnspecified,
                      "not for you");
  const CliResult result = fixture.Run({"doctor"});
  CHECK(result.code == ExitCode::kRefused);
  CHECK(Has(result.out, "PERMISSION_DENIED: not for you"));
}

TEST_CASE("A daemon of another version, or that drains, or without pidfds, is a warning") {
  v1::GetDaemonResponse daemon = Daemon();
  daemon.set_draining(true);
  daemon.set_reclaim_proof(v1::RECLAIM_PROOF_DELAY);
  daemon.add_warnings("w");
  const std::vector<Finding> findings = CheckDaemon(daemon, "9.9.9");
  CHECK(Has(findings, Verdict::kWarn, "daemon", "kvpoolctl is of version 9.9.9"));
  CHECK(Has(findings, Verdict::kWarn, "state", "draining"));
  CHECK(Has(findings, Verdict::kWarn, "reclaim proof", "delay"));
  CHECK(Has(findings, Verdict::kWarn, "warning", "w"));
  CHECK_FALSE(HasFailure(findings));
  daemon.set_reclaim_proof(v1::RECLAIM_PROOF_UNSPECIFIED);
  CHECK(Has(CheckDaemon(daemon, "1"), Verdict::kOk, "reclaim proof", "not known"));
}

TEST_CASE("No GPU here is fine where the daemon has none, with why there is none") {
  CHECK(Has(CheckGpus(NoDriver(), Daemon()), Verdict::kOk, "gpus", "no libcuda.so.1"));
  CHECK(Has(CheckGpus(std::vector<DeviceInfo>{}, Daemon()), Verdict::kOk, "gpus", "shows none"));
  CHECK(CheckIpc(Daemon()).empty());
}

TEST_CASE("A GPU of the daemon's that is not to be seen here is a warning, with why") {
  const v1::GetDaemonResponse daemon = WithGpu("GPU-a");
  CHECK(Has(CheckGpus(NoDriver(), daemon), Verdict::kWarn, "gpus", "GPU-a (H200)"));
  CHECK(Has(CheckGpus(NoDriver(), daemon), Verdict::kWarn, "gpus", "no libcuda.so.1"));
  const std::vector<Finding> other = CheckGpus(std::vector<DeviceInfo>{Gpu("GPU-b")}, daemon);
  CHECK(Has(other, Verdict::kOk, "gpus", "here: GPU-b (H200)"));
  CHECK(Has(other, Verdict::kWarn, "gpus", "none of those above"));
  const std::vector<Finding> same = CheckGpus(std::vector<DeviceInfo>{Gpu("GPU-a")}, daemon);
  CHECK(Has(same, Verdict::kOk, "gpus", "the daemon's: cuda GPU-a (H200)"));
  CHECK(same.size() == 2);
}

TEST_CASE("CUDA IPC is fine where the daemon has GPUs and no warning of it") {
  v1::GetDaemonResponse daemon = WithGpu("GPU-a");
  daemon.add_warnings("of something else");
  CHECK(Has(CheckIpc(daemon), Verdict::kOk, "cuda ipc", "nothing wrong"));
  daemon.add_warnings("could not map its memory by CUDA IPC, could not: x");
  CHECK(Has(CheckIpc(daemon), Verdict::kFail, "cuda ipc", "could not: x"));
  CHECK(CheckIpc(daemon).size() == 1);
}

// Answers once it is let.
class SlowGpus final : public Gpus {
 public:
  absl::StatusOr<Device*> Find(absl::string_view /*selector*/) override { return NoDriver(); }
  absl::StatusOr<std::vector<DeviceInfo>> List() override {
    let_.get_future().wait();
    return std::vector<DeviceInfo>{Gpu("GPU-a")};
  }
  void Let() { let_.set_value(); }

 private:
  std::promise<void> let_;
};

TEST_CASE("A driver that does not answer is a failure, and is not waited for") {
  const auto gpus = std::make_shared<SlowGpus>();
  const auto none = ListGpus(gpus, std::chrono::milliseconds(1));
  CHECK(absl::IsDeadlineExceeded(none.status()));
  CHECK(Has(CheckGpus(none, Daemon()), Verdict::kFail, "gpus", "within 1 ms"));
  gpus->Let();
  const auto ready = std::make_shared<SlowGpus>();
  ready->Let();
  CHECK(ListGpus(ready, std::chrono::minutes(1))->size() == 1);
}

TEST_CASE("A pool whose device has failed is a failure, with what it failed of") {
  v1::ListPoolsResponse pools;
  pools.add_pools()->mutable_layout()->mutable_spec()->set_name("well");
  CHECK(CheckPools(pools).empty());
  v1::PoolStatus& failed = *pools.add_pools();
  failed.mutable_layout()->mutable_spec()->set_name("p");
  failed.set_failure("cuMemcpyAsync: lost");
  CHECK(CheckPools(pools).size() == 1);
  CHECK(Has(CheckPools(pools), Verdict::kFail, "pool", "p: cuMemcpyAsync: lost"));
}

TEST_CASE("A daemon that starts is a warning, with what it waits for") {
  v1::GetDaemonResponse daemon = Daemon();
  daemon.set_starting(true);
  daemon.add_warnings("the start waits for pool p: no room");
  const std::vector<Finding> findings = CheckDaemon(daemon, KVPOOL_VERSION);
  CHECK(Has(findings, Verdict::kWarn, "state", "starting"));
  CHECK(Has(findings, Verdict::kWarn, "warning", "pool p: no room"));
}

TEST_CASE("Pids are read as a process's status lists them") {
  CHECK(ParsePids("Name:\tkvpoold\nNSpid:\t4711\t12\t1\nNSpgid:\t1\n") ==
        std::vector<pid_t>{4711, 12, 1});
  CHECK(ParsePids("Name:\tkvpoold\n").empty());
  CHECK(ParsePids("NSpid:\tx\n").empty());
}

TEST_CASE("Pids that are the same fail, and small ones are a warning, also where one is not seen") {
  const auto check = [](std::vector<pid_t> daemon, pid_t own) {
    return CheckPids({.pids = std::move(daemon)}, own).verdict;
  };
  CHECK(check({4711, 1}, 1) == Verdict::kFail);
  CHECK(check({4711, 5000}, 5000) == Verdict::kFail);
  CHECK(check({4711, 1}, 9000) == Verdict::kWarn);
  CHECK(check({7}, 9000) == Verdict::kWarn);
  CHECK(check({4711, 5000}, 1) == Verdict::kOk);
  CHECK(check({5000}, 5001) == Verdict::kOk);
  CHECK(check({}, 1) == Verdict::kWarn);
  CHECK(check({}, kMinSafePid) == Verdict::kOk);
  CHECK(Has(CheckPids({.pids = {4711, 1}}, 1).text, "start it under another pid"));
}

constexpr char kLimits[] =
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max open files            1024                 1048576              files     \n"
    "Max locked memory         8388608              unlimited            bytes     \n"
    "Max address space         unlimited            unlimited            bytes     \n";

TEST_CASE("Limits are read as /proc lists them") {
  CHECK(ParseLimit(kLimits, "Max open files") == 1024);
  CHECK(ParseLimit(kLimits, "Max address space") == std::numeric_limits<uint64_t>::max());
  CHECK_FALSE(ParseLimit(kLimits, "Max stack size").has_value());
  CHECK_FALSE(ParseLimit("Max open files x", "Max open files").has_value());
  CHECK_FALSE(ParseLimit("Max open files", "Max open files").has_value());
}

TEST_CASE("Low limits are a warning that says whose they are; locked memory counts for GPUs only") {
  const std::vector<Finding> own = CheckLimits({}, kLimits, /*has_gpus=*/true);
  CHECK(Has(own, Verdict::kWarn, "open files", "this process's limit is 1024"));
  CHECK(Has(own, Verdict::kWarn, "locked memory", "limit is 8 MiB"));
  CHECK(CheckLimits({}, kLimits, /*has_gpus=*/false).size() == 1);
  const std::vector<Finding> daemons =
      CheckLimits({.limits = "Max open files 4096 4096 files\nMax locked memory unlimited\n"},
                  kLimits, /*has_gpus=*/true);
  CHECK(Has(daemons, Verdict::kOk, "open files", "the daemon's limit is 4096"));
  CHECK(Has(daemons, Verdict::kOk, "locked memory", "the daemon's is unlimited"));
  CHECK(Has(CheckLimits({}, "", true), Verdict::kWarn, "locked memory", "does not tell"));
}

TEST_CASE("Memory is a warning where a twentieth is not there, and says where a cgroup limits it") {
  const uint64_t gib = uint64_t{1} << 30;
  const auto check = [&](uint64_t total, uint64_t free) {
    return CheckMemory(DeviceMemory{.total_bytes = total, .free_bytes = free}, 100 * gib);
  };
  CHECK(check(100 * gib, 5 * gib).verdict == Verdict::kOk);
  CHECK(check(100 * gib, 5 * gib - 1).verdict == Verdict::kWarn);
  CHECK(check(100 * gib, 5 * gib).text == "5 GiB of 100 GiB are available here");
  CHECK(Has(check(20 * gib, 5 * gib).text, "this cgroup may have of the node's 100 GiB"));
  CHECK(CheckMemory(absl::InternalError("x"), 0).verdict == Verdict::kWarn);
}

// A listening socket in a directory of its own.
class Listening {
 public:
  Listening() : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    std::filesystem::create_directory(directory());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    REQUIRE(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    REQUIRE(listen(fd_.get(), 1) == 0);
    SetMode(path(), 0660);
    SetMode(directory(), 0750);
  }

  static void SetMode(const std::string& path, mode_t mode) {
    REQUIRE(chmod(path.c_str(), mode) == 0);
  }
  std::string directory() const { return parent_.File("d"); }
  std::string path() const { return parent_.File("d/s"); }
  std::string parent() const { return parent_.path().string(); }

 private:
  const test::TempDir parent_;
  const client::OwnedFd fd_;
};

TEST_CASE("A socket for some, in a directory for some, is fine") {
  const Listening socket;
  const std::vector<Finding> findings = CheckSocket(socket.path());
  CHECK(Has(findings, Verdict::kOk, "socket", socket.path() + ", mode 0660"));
  CHECK(Has(findings, Verdict::kOk, "directory", socket.directory() + ", mode 0750"));
  CHECK(findings.size() == 2);
}

TEST_CASE("A socket that everybody may use is a warning") {
  const Listening socket;
  Listening::SetMode(socket.path(), 0666);
  CHECK(Has(CheckSocket(socket.path()), Verdict::kWarn, "socket", "mode 0666"));
}

TEST_CASE("A directory in which everybody can replace the socket fails, near it or above") {
  const Listening socket;
  Listening::SetMode(socket.directory(), 0777);
  CHECK(Has(CheckSocket(socket.path()), Verdict::kFail, "directory",
            "chmod o-w " + socket.directory()));
  Listening::SetMode(socket.directory(), 01777);
  CHECK(Has(CheckSocket(socket.path()), Verdict::kWarn, "directory", "directory of its own"));
  Listening::SetMode(socket.directory(), 0750);
  Listening::SetMode(socket.parent(), 0777);
  CHECK(
      Has(CheckSocket(socket.path()), Verdict::kFail, "directory", "chmod o-w " + socket.parent()));
}

TEST_CASE("A socket that is missing, or is none, fails") {
  const test::TempDir directory;
  std::ofstream(directory.File("file")) << "x";
  CHECK(Has(CheckSocket(directory.File("absent")), Verdict::kFail, "socket", "No such file"));
  CHECK(Has(CheckSocket(directory.File("file")), Verdict::kFail, "socket", "is no socket"));
  CHECK(Has(CheckSocket(directory.File("a/b")), Verdict::kFail, "directory", "No such file"));
}

TEST_CASE("The process behind a socket is found, with its pids and limits") {
  const Listening socket;
  const DaemonProcess process = FindDaemonProcess(socket.path());
  REQUIRE_FALSE(process.pids.empty());
  CHECK(process.pids.back() == getpid());
  CHECK(ParseLimit(process.limits, "Max open files").has_value());
  CHECK(FindDaemonProcess(socket.directory()).pids.empty());
}

}  // namespace
}  // namespace kvpool::cli
