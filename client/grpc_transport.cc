#include "client/grpc_transport.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

#include "client/region_fd.h"
#include "client/socket_probe.h"
#include "client/status_from_grpc.h"
#include "core/status_macros.h"
#include "kvpool/v1/block.grpc.pb.h"

namespace kvpool::client {
namespace {

using Stub = v1::BlockService::StubInterface;

constexpr int kReconnectBackoffMs = 100;
// Few are harmed by four attempts a second, and workers come back soon after their daemon.
constexpr int kMaxReconnectBackoffMs = 250;
// What a daemon that is there needs to greet a connection.
constexpr std::chrono::milliseconds kReconnectPatience(100);
// An Alloc of 65,536 blocks answers with 1 MiB at most: 5 bytes an id, 10 a generation.
constexpr int kMaxMessageBytes = 16 << 20;

int ToMs(Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& socket, Duration ping_interval,
                                           Duration ping_timeout) {
  grpc::ChannelArguments arguments;
  arguments.SetInt("grpc.initial_reconnect_backoff_ms", kReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, ToMs(ping_interval));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ToMs(ping_timeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A connection of its own: clients of one process do not share breaks and back-off.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // Retries are ours: they know which calls may be repeated.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(socket, grpc::InsecureChannelCredentials(), arguments);
}

class GrpcTransport final : public Transport {
 public:
  GrpcTransport(const std::string& socket, Duration ping_interval, Duration ping_timeout)
      : socket_(socket),
        fd_path_(absl::StrCat(absl::StripPrefix(socket, "unix:"), ".fd")),
        channel_(MakeChannel(socket, ping_interval, ping_timeout)),
        stub_(v1::BlockService::NewStub(channel_)) {}

  absl::Status OpenSession(const v1::OpenSessionRequest& request, const CallContext& call,
                           v1::OpenSessionResponse& response) override {
    KVPOOL_RETURN_IF_ERROR(WaitForDaemon(*channel_, socket_, call.timeout));
    return Unary(&Stub::OpenSession, request, call, response);
  }
  absl::Status CloseSession(const v1::CloseSessionRequest& request, const CallContext& call,
                            v1::CloseSessionResponse& response) override {
    return Unary(&Stub::CloseSession, request, call, response);
  }
  absl::Status Alloc(const v1::AllocRequest& request, const CallContext& call,
                     v1::AllocResponse& response) override {
    return Unary(&Stub::Alloc, request, call, response);
  }
  absl::Status IncRef(const v1::IncRefRequest& request, const CallContext& call,
                      v1::IncRefResponse& response) override {
    return Unary(&Stub::IncRef, request, call, response);
  }
  absl::Status DecRef(const v1::DecRefRequest& request, const CallContext& call,
                      v1::DecRefResponse& response) override {
    return Unary(&Stub::DecRef, request, call, response);
  }
  absl::Status Publish(const v1::PublishRequest& request, const CallContext& call,
                       v1::PublishResponse& response) override {
    return Unary(&Stub::Publish, request, call, response);
  }
  absl::Status Lookup(const v1::LookupRequest& request, const CallContext& call,
                      v1::LookupResponse& response) override {
    return Unary(&Stub::Lookup, request, call, response);
  }
  absl::Status Acquire(const v1::AcquireRequest& request, const CallContext& call,
                       v1::AcquireResponse& response) override {
    return Unary(&Stub::Acquire, request, call, response);
  }
  absl::Status Evict(const v1::EvictRequest& request, const CallContext& call,
                     v1::EvictResponse& response) override {
    return Unary(&Stub::Evict, request, call, response);
  }
  absl::Status FillBlocks(const v1::FillBlocksRequest& request, const CallContext& call,
                          v1::FillBlocksResponse& response) override {
    return Unary(&Stub::FillBlocks, request, call, response);
  }
  absl::Status CopyBlocks(const v1::CopyBlocksRequest& request, const CallContext& call,
                          v1::CopyBlocksResponse& response) override {
    return Unary(&Stub::CopyBlocks, request, call, response);
  }

  absl::Status KeepAlive(
      const v1::KeepAliveRequest& request, Cancellation& cancellation,
      absl::FunctionRef<void(const v1::KeepAliveResponse&)> on_message) override {
    grpc::ClientContext context;
    const Cancellation::Scope scope(cancellation, [&context] { context.TryCancel(); });
    const auto reader = stub_->KeepAlive(&context, request);
    v1::KeepAliveResponse response;
    while (reader->Read(&response)) on_message(response);
    return StatusFromGrpc(reader->Finish());
  }

  absl::Status ReadBlocks(
      const v1::ReadBlocksRequest& request, const CallContext& call,
      absl::FunctionRef<bool(const v1::ReadBlocksResponse&)> on_message) override {
    grpc::ClientContext context;
    Prepare(context, call);
    const Cancellation::Scope scope(call.cancellation, [&context] { context.TryCancel(); });
    const auto reader = stub_->ReadBlocks(&context, request);
    v1::ReadBlocksResponse response;
    bool goes_on = true;
    while (goes_on && reader->Read(&response)) goes_on = on_message(response);
    if (!goes_on) {
      context.TryCancel();
      while (reader->Read(&response)) continue;
    }
    return StatusFromGrpc(reader->Finish());
  }

  absl::Status WriteBlocks(const CallContext& call,
                           absl::FunctionRef<bool(v1::WriteBlocksRequest&)> next,
                           v1::WriteBlocksResponse& response) override {
    grpc::ClientContext context;
    Prepare(context, call);
    const Cancellation::Scope scope(call.cancellation, [&context] { context.TryCancel(); });
    const auto writer = stub_->WriteBlocks(&context, &response);
    v1::WriteBlocksRequest request;
    // A write that fails means that the daemon has answered already: Finish says what.
    bool is_open = true;
    while (is_open && next(request)) is_open = writer->Write(request);
    if (is_open) writer->WritesDone();
    return StatusFromGrpc(writer->Finish());
  }

  absl::StatusOr<OwnedFd> GetRegionFd(const v1::RegionFdRequest& request, const CallContext& call,
                                      v1::RegionFdResponse& response) override {
    return FetchRegionFd(fd_path_, request, call.timeout, response);
  }

 private:
  // Sets the deadline, and looks after a connection that broke. gRPC makes it anew by itself, but
  // reads what comes of that only while somebody waits, and else every 5 s: calls that fail at
  // once, and the pauses between them, would not notice that the daemon is back.
  void Prepare(grpc::ClientContext& context, const CallContext& call) const {
    const auto now = std::chrono::system_clock::now();
    const auto timeout =
        std::chrono::duration_cast<std::chrono::system_clock::duration>(call.timeout);
    context.set_deadline(now + timeout);
    if (channel_->GetState(/*try_to_connect=*/true) != GRPC_CHANNEL_TRANSIENT_FAILURE) return;
    const std::chrono::system_clock::duration patience = kReconnectPatience;
    channel_->WaitForConnected(now + std::min(timeout, patience));
  }

  template <typename Request, typename Response>
  absl::Status Unary(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                     const Request& request, const CallContext& call, Response& response) {
    grpc::ClientContext context;
    Prepare(context, call);
    const Cancellation::Scope scope(call.cancellation, [&context] { context.TryCancel(); });
    return StatusFromGrpc((stub_.get()->*method)(&context, request, &response));
  }

  const std::string socket_;
  const std::string fd_path_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::BlockService::Stub> stub_;
};

}  // namespace

std::shared_ptr<Transport> MakeGrpcTransport(const std::string& socket, Duration ping_interval,
                                             Duration ping_timeout) {
  return std::make_shared<GrpcTransport>(socket, ping_interval, ping_timeout);
}

}  // namespace kvpool::client
