#include "tests/unit/server_rpc/test_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <utility>

#include <grpc/grpc.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>

#include "core/check.h"
#include "core/error.h"
#include "kvpool/internal/status.pb.h"

namespace kvpool::test {
namespace {

constexpr char kDetailUrl[] = "type.googleapis.com/kvpool.v1.ErrorDetail";

PoolSpec MainSpec(const TestServerOptions& options) {
  PoolSpec spec;
  spec.name = "main";
  spec.num_layers = 2;
  spec.num_kv_heads = 1;
  spec.head_dim = 16;
  spec.dtype = "bf16";
  spec.num_blocks = 64;
  if (!options.pool_tenant.empty()) spec.tenants = {options.pool_tenant};
  return spec;
}

}  // namespace

// Every peer is this very process, which never goes.
class TestServer::Processes final : public server::ProcessTable {
 public:
  explicit Processes(std::function<void()> on_get_daemon)
      : on_get_daemon_(std::move(on_get_daemon)) {}

  std::shared_ptr<const server::Process> Make() {
    const auto id = ProcessId{next_id_++};
    return std::make_shared<server::Process>(id, getpid(), getuid(), server::ReclaimProof::kPidfd);
  }

  absl::StatusOr<std::shared_ptr<const server::Process>> FromSocket(int /*socket*/) override {
    return Make();
  }
  void ConnectionOpened(const server::Process& /*process*/) override {}
  void ConnectionClosed(const server::Process& /*process*/) override {}
  // Asked by GetDaemon alone.
  server::ReclaimProof weakest_proof() const override {
    if (on_get_daemon_) on_get_daemon_();
    return server::ReclaimProof::kPidfd;
  }

 private:
  const std::function<void()> on_get_daemon_;
  std::atomic<uint64_t> next_id_ = 1;
};

TestServer::TestServer(const TestServerOptions& options)
    : now_(TimePoint(std::chrono::hours(1)).time_since_epoch().count()),
      pools_({.limits = options.limits,
              .trace = options.trace,
              .clock = [this] { return TimePoint(Duration(now_.load())); }},
             devices_, hub_),
      processes_(std::make_unique<Processes>(options.on_get_daemon)),
      services_({.pools = pools_,
                 .sessions = hub_,
                 .watches = watches_,
                 .peers = peers_,
                 .processes = *processes_,
                 .workers = long_calls_,
                 .creation = creation_,
                 .gpus = creation_,
                 .call_memory = call_memory_,
                 .limits = options.limits,
                 .max_message_bytes = 4U << 20,
                 .version = "1.2.3",
                 .daemon_epoch = "epoch",
                 .start_time = std::chrono::system_clock::now(),
                 .clock = [this] { return TimePoint(Duration(now_.load())); },
                 .trace = options.trace,
                 .warnings = [] { return std::vector<std::string>{"a warning"}; },
                 .devices = devices_,
                 .drain =
                     [this](std::optional<Duration> deadline, absl::AnyInvocable<void()> done) {
                       drain_deadline_ = deadline;
                       draining_ = true;
                       done();
                     },
                 .starting = starting_,
                 .draining = draining_}) {
  // gRPC is never shut down: that may wait ten seconds for its backup poller to have a last look.
  static const bool is_kept = (grpc_init(), true);
  static_cast<void>(is_kept);
  KVPOOL_CHECK(pools_.Create(MainSpec(options)).ok());
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(4 << 20);
  services_.Register(builder);
  server_ = builder.BuildAndStart();
  KVPOOL_CHECK(server_ != nullptr);
}

TestServer::~TestServer() {
  // Ends what tests left open: streams, and calls that wait.
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  // The work of a call may outlast its stream, and uses what else is here.
  creation_.Finish();
  workers_.Finish();
}

Connection TestServer::Connect(v1::Role role, const std::string& tenant) {
  return Connect(std::make_shared<server::Peer>(server::Peer{.connection = next_connection_++,
                                                             .role = role,
                                                             .tenant = tenant,
                                                             .listener = "unix:/test",
                                                             .process = processes_->Make()}));
}

Connection TestServer::ConnectUnknown() { return Connect(nullptr); }

Connection TestServer::Connect(std::shared_ptr<const server::Peer> peer) {
  std::array<int, 2> fds{};
  KVPOOL_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()) == 0);
  if (peer != nullptr) peers_.Add(fds[0], std::move(peer));
  grpc::AddInsecureChannelFromFd(server_.get(), fds[0]);
  Connection connection;
  connection.channel = grpc::CreateInsecureChannelFromFd("test", fds[1]);
  connection.blocks = v1::BlockService::NewStub(connection.channel);
  connection.inspect = v1::InspectService::NewStub(connection.channel);
  connection.admin = v1::AdminService::NewStub(connection.channel);
  return connection;
}

void TestServer::Pass(Duration duration) {
  now_ += duration.count();
  watches_.Tick(TimePoint(Duration(now_.load())));
  pools_.Advance();
}

Pool& TestServer::pool(const std::string& name) { return *pools_.Find(name)->pool; }

void TestServer::AddSession(const SessionId& id) {
  const auto process = std::make_shared<const server::Process>(ProcessId{1'000'000}, 1, 0,
                                                               server::ReclaimProof::kPidfd);
  const std::shared_ptr<Pool> main = pools_.Find("main").value().pool;
  hub_.Add(id, main, process);
  KVPOOL_CHECK(main->OpenSession({.id = id,
                                  .tenant = "tenant-a",
                                  .client_name = "added",
                                  .model_id = "",
                                  .pid = 1,
                                  .uid = 0,
                                  .process = process->id(),
                                  .ttl = std::chrono::minutes(10),
                                  .guaranteed_blocks = 0,
                                  .join = std::nullopt})
                   .ok());
}

v1::PoolSpec MainPoolSpec() {
  v1::PoolSpec spec;
  spec.set_name("main");
  spec.set_num_layers(2);
  spec.set_num_kv_heads(1);
  spec.set_head_dim(16);
  spec.set_dtype("bf16");
  spec.set_num_blocks(64);
  return spec;
}

v1::ErrorDetail DetailOf(const grpc::Status& status) {
  kvpool::internal::Status details;
  v1::ErrorDetail detail;
  if (!details.ParseFromString(status.error_details()) || details.code() != status.error_code() ||
      details.message() != status.error_message() || details.details_size() != 1 ||
      details.details(0).type_url() != kDetailUrl ||
      !detail.ParseFromString(details.details(0).value())) {
    throw std::runtime_error("an error without its detail: " + status.error_message());
  }
  return detail;
}

std::string CodeOf(const grpc::Status& status) {
  if (status.ok()) return "OK";
  const std::string code =
      absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code()));
  const auto reason = static_cast<Reason>(DetailOf(status).reason());
  return reason == Reason::kUnspecified ? code : code + " " + std::string(ReasonName(reason));
}

}  // namespace kvpool::test
