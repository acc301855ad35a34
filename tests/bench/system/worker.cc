#include "tests/bench/system/worker.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace kvpool::bench {
namespace {

void Require(const grpc::Status& status, const char* call) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", call, status.error_message().c_str());
  std::abort();
}

}  // namespace

std::string OpenSession(v1::BlockService::Stub& stub, const std::string& pool) {
  v1::OpenSessionRequest request;
  request.set_pool(pool);
  request.set_client_name("bench");
  request.set_pid(getpid());
  v1::OpenSessionResponse response;
  grpc::ClientContext context;
  Require(stub.OpenSession(&context, request, &response), "OpenSession");
  return response.session_id();
}

RawSession::RawSession(const std::shared_ptr<grpc::Channel>& channel, const std::string& pool)
    : stub_(v1::BlockService::NewStub(channel)), id_(OpenSession(*stub_, pool)) {
  v1::KeepAliveRequest attach;
  attach.set_session_id(id_);
  stream_ = stub_->KeepAlive(&stream_context_, attach);
  v1::KeepAliveResponse attached;
  if (!stream_->Read(&attached)) Require(stream_->Finish(), "KeepAlive");
}

RawSession::~RawSession() {
  v1::CloseSessionRequest request;
  request.set_session_id(id_);
  v1::CloseSessionResponse response;
  grpc::ClientContext context;
  Require(stub_->CloseSession(&context, request, &response), "CloseSession");
  v1::KeepAliveResponse notice;
  while (stream_->Read(&notice)) {
  }
  Require(stream_->Finish(), "KeepAlive");
}

v1::Blocks RawSession::Alloc(uint32_t count, int64_t wait_seconds) {
  v1::AllocRequest request;
  request.set_session_id(id_);
  request.set_count(count);
  if (wait_seconds > 0) request.mutable_wait()->set_seconds(wait_seconds);
  v1::AllocResponse response;
  grpc::ClientContext context;
  Require(stub_->Alloc(&context, request, &response), "Alloc");
  return std::move(*response.mutable_blocks());
}

void RawSession::IncRef(const v1::Blocks& blocks) {
  v1::IncRefRequest request;
  request.set_session_id(id_);
  *request.mutable_blocks() = blocks;
  v1::IncRefResponse response;
  grpc::ClientContext context;
  Require(stub_->IncRef(&context, request, &response), "IncRef");
}

void RawSession::DecRef(const v1::Blocks& blocks) {
  v1::DecRefRequest request;
  request.set_session_id(id_);
  *request.mutable_blocks() = blocks;
  v1::DecRefResponse response;
  grpc::ClientContext context;
  Require(stub_->DecRef(&context, request, &response), "DecRef");
}

void RawSession::Fill(const v1::Blocks& blocks) {
  v1::FillBlocksRequest request;
  request.set_session_id(id_);
  *request.mutable_blocks() = blocks;
  request.set_fill(v1::FILL_ZERO);
  v1::FillBlocksResponse response;
  grpc::ClientContext context;
  Require(stub_->FillBlocks(&context, request, &response), "FillBlocks");
}

void RawSession::Read(const v1::Blocks& blocks) {
  v1::ReadBlocksRequest request;
  request.set_session_id(id_);
  *request.mutable_blocks() = blocks;
  grpc::ClientContext context;
  const auto stream = stub_->ReadBlocks(&context, request);
  v1::ReadBlocksResponse piece;
  while (stream->Read(&piece)) {
  }
  Require(stream->Finish(), "ReadBlocks");
}

}  // namespace kvpool::bench
