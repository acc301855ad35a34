#include "tests/support/raw_client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include <google/protobuf/util/json_util.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include "client/status_from_grpc.h"
#include "core/check.h"
#include "core/error.h"
#include "core/status_macros.h"
#include "kvpool/v1/admin.grpc.pb.h"
#include "kvpool/v1/block.grpc.pb.h"
#include "kvpool/v1/inspect.grpc.pb.h"

namespace kvpool::test {
namespace {

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

std::string ToString(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

std::chrono::system_clock::time_point Deadline() {
  return std::chrono::system_clock::now() + RawClient::kPatience;
}

template <typename Response>
absl::Status Read(grpc::ClientReader<Response>& reader, std::vector<Response>& responses) {
  Response response;
  while (reader.Read(&response)) responses.push_back(std::move(response));
  return client::StatusFromGrpc(reader.Finish());
}

// Calls `method` of a stub and waits for the answer.
template <typename Stub, typename Request, typename Response>
absl::Status Call(Stub& stub,
                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request, Response* response,
                  std::chrono::microseconds deadline = RawClient::kPatience) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline);
  context.set_wait_for_ready(true);
  return client::StatusFromGrpc((stub.*method)(&context, request, response));
}

// Calls a `method` that answers with a list in several messages; `response` has all of it.
template <typename Stub, typename Request, typename Response>
absl::Status CallList(Stub& stub,
                      std::unique_ptr<grpc::ClientReader<Response>> (Stub::*method)(
                          grpc::ClientContext*, const Request&),
                      const Request& request, Response* response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + RawClient::kPatience);
  context.set_wait_for_ready(true);
  std::vector<Response> parts;
  KVPOOL_RETURN_IF_ERROR(Read(*(stub.*method)(&context, request), parts));
  for (const Response& part : parts) response->MergeFrom(part);
  return absl::OkStatus();
}

class KeepAliveStream final : public RawClient::Stream {
 public:
  KeepAliveStream(v1::BlockService::Stub& stub, const std::string& session_id) {
    v1::KeepAliveRequest request;
    request.set_session_id(session_id);
    reader_ = stub.KeepAlive(&context_, request);
  }

  ~KeepAliveStream() override {
    context_.TryCancel();
    KeepAliveStream::End().IgnoreError();
  }

  std::optional<v1::Notice> Next() override {
    v1::KeepAliveResponse response;
    if (end_.has_value()) return std::nullopt;
    if (!reader_->Read(&response)) {
      end_ = client::StatusFromGrpc(reader_->Finish());
      return std::nullopt;
    }
    return std::move(*response.mutable_notice());
  }

  absl::Status End() override {
    while (Next().has_value()) {
    }
    return *end_;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::KeepAliveResponse>> reader_;
  std::optional<absl::Status> end_;
};

class WatchStream final : public RawClient::Watch {
 public:
  WatchStream(v1::InspectService::Stub& stub, const v1::WatchPrefixesRequest& request)
      : reader_(stub.WatchPrefixes(&context_, request)) {}

  ~WatchStream() override {
    context_.TryCancel();
    WatchStream::End().IgnoreError();
  }

  std::optional<v1::WatchPrefixesResponse> Next() override {
    if (end_.has_value()) return std::nullopt;
    v1::WatchPrefixesResponse event;
    if (reader_->Read(&event)) return event;
    end_ = client::StatusFromGrpc(reader_->Finish());
    return std::nullopt;
  }

  absl::Status End() override {
    while (Next().has_value()) {
    }
    return *end_;
  }

  void Break() override { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<grpc::ClientReader<v1::WatchPrefixesResponse>> reader_;
  std::optional<absl::Status> end_;
};

}  // namespace

struct RawClient::Stubs {
  explicit Stubs(std::shared_ptr<grpc::Channel> to)
      : channel(std::move(to)),
        blocks(v1::BlockService::NewStub(channel)),
        inspect(v1::InspectService::NewStub(channel)),
        admin(v1::AdminService::NewStub(channel)),
        health(grpc::health::v1::Health::NewStub(channel)) {}

  const std::shared_ptr<grpc::Channel> channel;
  const std::unique_ptr<v1::BlockService::Stub> blocks;
  const std::unique_ptr<v1::InspectService::Stub> inspect;
  const std::unique_ptr<v1::AdminService::Stub> admin;
  const std::unique_ptr<grpc::health::v1::Health::Stub> health;
};

std::string Said(const absl::Status& status) {
  std::string text = absl::StatusCodeToString(status.code());
  const Reason reason = GetErrorDetail(status).reason;
  if (reason != Reason::kUnspecified) absl::StrAppend(&text, " ", ReasonName(reason));
  return text;
}

v1::Blocks First(const v1::Blocks& blocks, int count) {
  v1::Blocks first = blocks;
  first.mutable_block_ids()->Truncate(count);
  first.mutable_generations()->Truncate(count);
  return first;
}

v1::Blocks Joined(v1::Blocks first, const v1::Blocks& second) {
  first.MergeFrom(second);
  return first;
}

v1::Blocks Id(uint32_t block_id) {
  v1::Blocks blocks;
  blocks.add_block_ids(block_id);
  return blocks;
}

RawClient::RawClient(std::shared_ptr<grpc::Channel> channel)
    : stubs_(std::make_unique<Stubs>(std::move(channel))) {}

RawClient::~RawClient() = default;

absl::StatusOr<v1::OpenSessionResponse> RawClient::OpenSession(
    const v1::OpenSessionRequest& request, std::chrono::microseconds deadline) {
  v1::OpenSessionResponse response;
  KVPOOL_RETURN_IF_ERROR(
      Call(*stubs_->blocks, &v1::BlockService::Stub::OpenSession, request, &response, deadline));
  return response;
}

absl::StatusOr<v1::AllocResponse> RawClient::Alloc(const v1::AllocRequest& request,
                                                   std::chrono::microseconds deadline) {
  v1::AllocResponse response;
  KVPOOL_RETURN_IF_ERROR(
      Call(*stubs_->blocks, &v1::BlockService::Stub::Alloc, request, &response, deadline));
  return response;
}

absl::Status RawClient::IncRef(const v1::IncRefRequest& request) {
  v1::IncRefResponse response;
  return Call(*stubs_->blocks, &v1::BlockService::Stub::IncRef, request, &response);
}

absl::StatusOr<v1::DecRefResponse> RawClient::DecRef(const v1::DecRefRequest& request) {
  v1::DecRefResponse response;
  KVPOOL_RETURN_IF_ERROR(
      Call(*stubs_->blocks, &v1::BlockService::Stub::DecRef, request, &response));
  return response;
}

absl::Status RawClient::CloseSession(const std::string& session_id) {
  v1::CloseSessionRequest request;
  request.set_session_id(session_id);
  v1::CloseSessionResponse response;
  return Call(*stubs_->blocks, &v1::BlockService::Stub::CloseSession, request, &response);
}

absl::Status RawClient::FillBlocks(const v1::FillBlocksRequest& request) {
  v1::FillBlocksResponse response;
  return Call(*stubs_->blocks, &v1::BlockService::Stub::FillBlocks, request, &response);
}

absl::StatusOr<v1::PublishResponse> RawClient::Publish(const v1::PublishRequest& request) {
  v1::PublishResponse response;
  KVPOOL_RETURN_IF_ERROR(
      Call(*stubs_->blocks, &v1::BlockService::Stub::Publish, request, &response));
  return response;
}

absl::StatusOr<v1::LookupResponse> RawClient::Lookup(const v1::LookupRequest& request,
                                                     std::chrono::microseconds deadline) {
  v1::LookupResponse response;
  KVPOOL_RETURN_IF_ERROR(
      Call(*stubs_->blocks, &v1::BlockService::Stub::Lookup, request, &response, deadline));
  return response;
}

absl::StatusOr<v1::AcquireResponse> RawClient::Acquire(const v1::AcquireRequest& request) {
  v1::AcquireResponse response;
  KVPOOL_RETURN_IF_ERROR(
      Call(*stubs_->blocks, &v1::BlockService::Stub::Acquire, request, &response));
  return response;
}

absl::StatusOr<v1::EvictResponse> RawClient::Evict(const v1::EvictRequest& request) {
  v1::EvictResponse response;
  KVPOOL_RETURN_IF_ERROR(Call(*stubs_->blocks, &v1::BlockService::Stub::Evict, request, &response));
  return response;
}

absl::Status RawClient::CopyBlocks(const v1::CopyBlocksRequest& request) {
  v1::CopyBlocksResponse response;
  return Call(*stubs_->blocks, &v1::BlockService::Stub::CopyBlocks, request, &response);
}

absl::StatusOr<std::vector<v1::BlockPiece>> RawClient::ReadBlocks(
    const v1::ReadBlocksRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(Deadline());
  context.set_wait_for_ready(true);
  std::vector<v1::ReadBlocksResponse> responses;
  KVPOOL_RETURN_IF_ERROR(Read(*stubs_->blocks->ReadBlocks(&context, request), responses));
  std::vector<v1::BlockPiece> pieces;
  for (v1::ReadBlocksResponse& response : responses) {
    pieces.push_back(std::move(*response.mutable_piece()));
  }
  return pieces;
}

absl::StatusOr<uint64_t> RawClient::WriteBlocks(
    const std::vector<v1::WriteBlocksRequest>& messages) {
  grpc::ClientContext context;
  context.set_deadline(Deadline());
  context.set_wait_for_ready(true);
  v1::WriteBlocksResponse response;
  const auto writer = stubs_->blocks->WriteBlocks(&context, &response);
  for (const v1::WriteBlocksRequest& message : messages) {
    if (!writer->Write(message)) break;  // It has failed; Finish says how.
  }
  writer->WritesDone();
  KVPOOL_RETURN_IF_ERROR(client::StatusFromGrpc(writer->Finish()));
  return response.bytes();
}

absl::StatusOr<v1::GetDaemonResponse> RawClient::GetDaemon() {
  v1::GetDaemonResponse response;
  KVPOOL_RETURN_IF_ERROR(Call(*stubs_->inspect, &v1::InspectService::Stub::GetDaemon,
                              v1::GetDaemonRequest(), &response));
  return response;
}

absl::StatusOr<std::vector<v1::PoolStatus>> RawClient::ListPools() {
  v1::ListPoolsResponse response;
  KVPOOL_RETURN_IF_ERROR(CallList(*stubs_->inspect, &v1::InspectService::Stub::ListPools,
                                  v1::ListPoolsRequest(), &response));
  return std::vector<v1::PoolStatus>(response.pools().begin(), response.pools().end());
}

absl::StatusOr<v1::PoolStatus> RawClient::GetPool(const std::string& name) {
  v1::GetPoolRequest request;
  request.set_name(name);
  v1::GetPoolResponse response;
  KVPOOL_RETURN_IF_ERROR(
      Call(*stubs_->inspect, &v1::InspectService::Stub::GetPool, request, &response));
  return std::move(*response.mutable_pool());
}

absl::StatusOr<v1::SessionStatus> RawClient::GetSession(const std::string& session_id) {
  v1::GetSessionRequest request;
  request.set_session_id(session_id);
  v1::GetSessionResponse response;
  KVPOOL_RETURN_IF_ERROR(
      Call(*stubs_->inspect, &v1::InspectService::Stub::GetSession, request, &response));
  return std::move(*response.mutable_session());
}

absl::StatusOr<v1::BlockStatus> RawClient::GetBlock(const std::string& pool, uint32_t block_id) {
  v1::GetBlockRequest request;
  request.set_pool(pool);
  request.set_block_id(block_id);
  v1::GetBlockResponse response;
  KVPOOL_RETURN_IF_ERROR(
      Call(*stubs_->inspect, &v1::InspectService::Stub::GetBlock, request, &response));
  return std::move(*response.mutable_block());
}

absl::StatusOr<std::vector<v1::SessionStatus>> RawClient::ListSessions(const std::string& pool) {
  v1::ListSessionsRequest request;
  request.set_pool(pool);
  v1::ListSessionsResponse response;
  KVPOOL_RETURN_IF_ERROR(
      CallList(*stubs_->inspect, &v1::InspectService::Stub::ListSessions, request, &response));
  return std::vector<v1::SessionStatus>(response.sessions().begin(), response.sessions().end());
}

absl::StatusOr<std::vector<v1::BlockStatus>> RawClient::ListBlocks(
    const v1::ListBlocksRequest& request) {
  v1::ListBlocksResponse response;
  KVPOOL_RETURN_IF_ERROR(
      CallList(*stubs_->inspect, &v1::InspectService::Stub::ListBlocks, request, &response));
  return std::vector<v1::BlockStatus>(response.blocks().begin(), response.blocks().end());
}

absl::StatusOr<v1::ChecksumLayersResponse> RawClient::ChecksumLayers(
    const v1::ChecksumLayersRequest& request) {
  v1::ChecksumLayersResponse response;
  KVPOOL_RETURN_IF_ERROR(
      Call(*stubs_->inspect, &v1::InspectService::Stub::ChecksumLayers, request, &response));
  return response;
}

absl::Status RawClient::CreatePool(const std::string& spec_json) {
  v1::CreatePoolRequest request;
  KVPOOL_CHECK(google::protobuf::util::JsonStringToMessage(spec_json, request.mutable_spec()).ok());
  v1::CreatePoolResponse response;
  return Call(*stubs_->admin, &v1::AdminService::Stub::CreatePool, request, &response);
}

absl::Status RawClient::DeletePool(const std::string& name) {
  v1::DeletePoolRequest request;
  request.set_name(name);
  v1::DeletePoolResponse response;
  return Call(*stubs_->admin, &v1::AdminService::Stub::DeletePool, request, &response);
}

absl::StatusOr<uint32_t> RawClient::ResetPrefixes(const std::string& pool,
                                                  const std::string& tenant) {
  v1::ResetPrefixesRequest request;
  request.set_pool(pool);
  request.set_tenant(tenant);
  v1::ResetPrefixesResponse response;
  KVPOOL_RETURN_IF_ERROR(
      Call(*stubs_->admin, &v1::AdminService::Stub::ResetPrefixes, request, &response));
  return response.forgotten();
}

absl::Status RawClient::TerminateSession(const std::string& session_id, bool release_claims) {
  v1::TerminateSessionRequest request;
  request.set_session_id(session_id);
  request.set_release_claims(release_claims);
  v1::TerminateSessionResponse response;
  return Call(*stubs_->admin, &v1::AdminService::Stub::TerminateSession, request, &response);
}

absl::Status RawClient::Drain(const v1::DrainRequest& request) {
  v1::DrainResponse response;
  return Call(*stubs_->admin, &v1::AdminService::Stub::Drain, request, &response);
}

std::unique_ptr<RawClient::Watch> RawClient::WatchPrefixes(
    const v1::WatchPrefixesRequest& request) {
  return std::make_unique<WatchStream>(*stubs_->inspect, request);
}

std::unique_ptr<RawClient::Stream> RawClient::KeepAlive(const std::string& session_id) {
  return std::make_unique<KeepAliveStream>(*stubs_->blocks, session_id);
}

absl::StatusOr<grpc::health::v1::HealthCheckResponse::ServingStatus> RawClient::Health() {
  grpc::health::v1::HealthCheckResponse response;
  KVPOOL_RETURN_IF_ERROR(Call(*stubs_->health, &grpc::health::v1::Health::Stub::Check,
                              grpc::health::v1::HealthCheckRequest(), &response));
  return response.status();
}

absl::StatusOr<std::string> RawClient::Exchange(const std::string& method,
                                                const std::string& message) {
  grpc::GenericStub stub(stubs_->channel);
  grpc::ClientContext context;
  context.set_deadline(Deadline());
  context.set_wait_for_ready(true);
  grpc::CompletionQueue queue;
  const auto stream = stub.PrepareCall(&context, method, &queue);
  // One step at a time; false where the stream has ended.
  const auto step = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  stream->StartCall(nullptr);
  const bool has_started = step();
  grpc::ByteBuffer answer;
  bool has_answer = false;
  if (has_started) {
    stream->Write(ToBuffer(message), nullptr);
    if (step()) {
      stream->Read(&answer, nullptr);
      has_answer = step();
    }
    stream->WritesDone(nullptr);
    step();
  }
  grpc::Status status;
  stream->Finish(&status, nullptr);
  step();
  if (!has_answer) return client::StatusFromGrpc(status);
  return ToString(answer);
}

}  // namespace kvpool::test
