#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "core/check.h"
#include "kvpool/v1/admin.grpc.pb.h"
#include "tests/bench/system/echo_process.h"
#include "tests/bench/system/report.h"
#include "tests/bench/system/samples.h"
#include "tests/bench/system/scenarios.h"
#include "tests/bench/system/worker.h"
#include "tests/support/child_process.h"
#include "tests/support/daemon_process.h"

namespace kvpool::bench {
namespace {

constexpr uint32_t kWorkers = 64;
constexpr int kCalls = 3'000;
constexpr size_t kEchoBytes = 38;
// Of 64 workers every sixteenth creates and deletes pools; of the rest half fill, half read.
constexpr uint32_t kCreatorEvery = 16;

constexpr char kPool[] =
    R"([{"name": "busy", "numLayers": 8, "numKvHeads": 8, "headDim": 128, "dtype": "bf16",)"
    R"( "numBlocks": 1024}])";

struct Figures {
  Samples alloc, echo;
};

Figures Measure(EchoProcess& echo, RawSession& session) {
  Figures figures;
  for (int i = 0; i < kCalls; ++i) {
    figures.echo.Add(Time([&] { echo.Call(kEchoBytes); }));
    v1::Blocks blocks;
    figures.alloc.Add(Time([&] { blocks = session.Alloc(1); }));
    session.DecRef(blocks);
  }
  return figures;
}

// A worker that works no more would make the daemon look fast.
void Require(const grpc::Status& status, const char* call) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", call, status.error_message().c_str());
  std::abort();
}

[[noreturn]] void CreateAndDelete(const std::shared_ptr<grpc::Channel>& channel,
                                  const std::string& name) {
  const auto stub = v1::AdminService::NewStub(channel);
  while (true) {
    v1::CreatePoolRequest create;
    create.mutable_spec()->set_name(name);
    create.mutable_spec()->set_num_layers(32);
    create.mutable_spec()->set_num_kv_heads(8);
    create.mutable_spec()->set_head_dim(128);
    create.mutable_spec()->set_memory_bytes(uint64_t{64} << 20);
    v1::CreatePoolResponse created;
    grpc::ClientContext create_context;
    Require(stub->CreatePool(&create_context, create, &created), "CreatePool");
    v1::DeletePoolRequest remove;
    remove.set_name(name);
    v1::DeletePoolResponse removed;
    grpc::ClientContext delete_context;
    Require(stub->DeletePool(&delete_context, remove, &removed), "DeletePool");
  }
}

}  // namespace

void RunInterference() {
  EchoProcess echo;
  test::DaemonProcess daemon({.pools_json = kPool});
  RawSession session(daemon.Connect(daemon.worker_socket()), "busy");
  Measure(echo, session);
  const Figures usual = Measure(echo, session);
  std::vector<std::unique_ptr<test::ChildProcess>> workers;
  for (uint32_t i = 0; i < kWorkers; ++i) {
    workers.push_back(std::make_unique<test::ChildProcess>(
        test::ChildProcess::Options{.arguments = {"/proc/self/exe", "busy", daemon.worker_socket(),
                                                  daemon.operator_socket(), std::to_string(i)},
                                    .environment = {},
                                    .stderr_path = {},
                                    .uid = {}}));
  }
  for (const auto& worker : workers) KVPOOL_CHECK(worker->ReadLine() == "busy");
  const Figures busy = Measure(echo, session);
  for (const auto& worker : workers) KVPOOL_CHECK(worker->IsRunning());
  const double usual_p99 = usual.alloc.Percentile(99);
  const double busy_p99 = busy.alloc.Percentile(99);
  Report("-", "Alloc(1) beside 64 workers that fill, read and create pools, p99",
         Microseconds(busy_p99), "usual " + Microseconds(usual_p99), busy_p99 / usual_p99);
  // The same machine does the workers' own work: what a bare echo suffers is not the daemon's.
  const double usual_echo = usual.echo.Percentile(99);
  const double busy_echo = busy.echo.Percentile(99);
  Report("-", "a bare echo beside them, p99", Microseconds(busy_echo),
         "usual " + Microseconds(usual_echo), busy_echo / usual_echo);
}

int BusyWorker(const char* worker_socket, const char* operator_socket, const char* index) {
  const auto number = static_cast<uint32_t>(std::strtoul(index, nullptr, 10));
  std::printf("busy\n");
  std::fflush(stdout);
  if (number % kCreatorEvery == 0) {
    CreateAndDelete(grpc::CreateChannel(operator_socket, grpc::InsecureChannelCredentials()),
                    "made-" + std::to_string(number));
  }
  RawSession session(grpc::CreateChannel(worker_socket, grpc::InsecureChannelCredentials()),
                     "busy");
  const v1::Blocks blocks = session.Alloc(8);
  while (true) {
    if (number % 2 == 0) {
      session.Fill(blocks);
    } else {
      session.Read(blocks);
    }
  }
}

}  // namespace kvpool::bench
