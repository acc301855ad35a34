#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/server.h>

#include "core/device/host_device.h"
#include "kvpool/v1/admin.grpc.pb.h"
#include "kvpool/v1/block.grpc.pb.h"
#include "kvpool/v1/inspect.grpc.pb.h"
#include "server/peer.h"
#include "server/pool_registry.h"
#include "server/rpc/services.h"
#include "server/session_hub.h"
#include "server/worker_pool.h"

namespace kvpool::test {

// The stubs of one connection.
struct Connection {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::BlockService::Stub> blocks;
  std::unique_ptr<v1::InspectService::Stub> inspect;
  std::unique_ptr<v1::AdminService::Stub> admin;
};

struct TestServerOptions {
  LedgerLimits limits;
  bool trace = false;
  std::string pool_tenant;                // The only tenant of the pool. Empty: for all.
  std::function<void()> on_get_daemon{};  // Called by GetDaemon's handler, on its thread.
};

// The services behind a real gRPC server, with real pools on host memory; clients reach it through
// socket pairs, each end of which has its place in the table of peers. Time stands still unless
// it is moved.
//
// It serves one pool, "main": 64 blocks of 16 tokens, 2 layers of 1 head of 16, in bf16.
class TestServer {
 public:
  explicit TestServer(const TestServerOptions& options = {});
  ~TestServer();

  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  Connection Connect(v1::Role role, const std::string& tenant = "tenant-a");
  // A connection that no listener of the daemon has accepted.
  Connection ConnectUnknown();

  // Lets time pass, and does what fell due.
  void Pass(Duration duration);

  // Opens a session of that id in "main".
  void AddSession(const SessionId& id);

  Pool& pool(const std::string& name = "main");
  server::SessionHub& sessions() { return hub_; }
  server::WatchHub& watches() { return watches_; }
  // Two threads.
  server::WorkerPool& workers() { return workers_; }
  const server::MemoryBudget& call_memory() const { return call_memory_; }
  std::atomic<bool>& starting() { return starting_; }
  std::atomic<bool>& draining() { return draining_; }
  // That the last Drain has asked for. Nothing is waited for.
  std::optional<Duration> drain_deadline() const { return drain_deadline_; }

 private:
  class Processes;

  Connection Connect(std::shared_ptr<const server::Peer> peer);

  std::atomic<TimePoint::rep> now_;
  std::atomic<bool> starting_ = false;
  std::atomic<bool> draining_ = false;
  std::optional<Duration> drain_deadline_;
  uint64_t next_connection_ = 1;

  server::MemoryBudget call_memory_{server::kMaxCallBytes};
  server::WorkerPool workers_{"test-workers", 2};
  server::FairQueue long_calls_{workers_, 2};
  server::WorkerPool creation_{"test-creation", 1};
  HostDevice host_{workers_};
  server::DeviceTable devices_{host_};
  server::SessionHub hub_;
  server::WatchHub watches_;
  server::PoolRegistry pools_;
  server::PeerTable peers_;
  std::unique_ptr<Processes> processes_;
  server::Services services_;
  std::unique_ptr<grpc::Server> server_;
};

// The pool that TestServer serves.
v1::PoolSpec MainPoolSpec();

// The detail that an error of ours carries. Throws, which fails the test, where there is none.
v1::ErrorDetail DetailOf(const grpc::Status& status);
// "RESOURCE_EXHAUSTED POOL_FULL": code and reason, for comparing.
std::string CodeOf(const grpc::Status& status);

// Calls a unary method as `Call(*stub, &Stub::Method, request, response)`.
template <typename Stub, typename Service, typename Request, typename Response>
grpc::Status Call(Stub& stub,
                  grpc::Status (Service::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request, Response& response) {
  grpc::ClientContext context;
  return (stub.*method)(&context, request, &response);
}

// As Call, for who does not look at the answer.
template <typename Stub, typename Service, typename Request, typename Response>
grpc::Status Call(Stub& stub,
                  grpc::Status (Service::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request) {
  Response response;
  return Call(stub, method, request, response);
}

// Calls a method that answers with a list in several messages; `response` has all of it.
template <typename Stub, typename Service, typename Request, typename Response>
grpc::Status CallList(Stub& stub,
                      std::unique_ptr<grpc::ClientReader<Response>> (Service::*method)(
                          grpc::ClientContext*, const Request&),
                      const Request& request, Response& response) {
  grpc::ClientContext context;
  const auto reader = (stub.*method)(&context, request);
  Response part;
  while (reader->Read(&part)) response.MergeFrom(part);
  return reader->Finish();
}

// Opens a session in "main"; the test fails where that does.
std::string OpenSession(Connection& connection);
// The same, of a model, so that it may publish and find.
std::string OpenWithModel(Connection& connection, const std::string& model_id = "llama");
// Allocates `count` blocks; the test fails where that does.
v1::Blocks Alloc(Connection& connection, const std::string& session, uint32_t count);

}  // namespace kvpool::test
