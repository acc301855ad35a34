#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/channel.h>

#include "kvpool/v1/block.grpc.pb.h"
#include "tests/bench/system/echo.grpc.pb.h"

namespace kvpool::bench {

// Opens a session with plain generated stubs; its id.
std::string OpenSession(v1::BlockService::Stub& stub, const std::string& pool);

// A session driven by plain generated stubs, so that what is measured is the daemon and gRPC
// alone. Attached as long as it lives. Every call must succeed. Not thread-safe.
class RawSession {
 public:
  RawSession(const std::shared_ptr<grpc::Channel>& channel, const std::string& pool);
  ~RawSession();

  RawSession(const RawSession&) = delete;
  RawSession& operator=(const RawSession&) = delete;

  // `wait_seconds` 0: does not wait for room.
  v1::Blocks Alloc(uint32_t count, int64_t wait_seconds = 0);
  void IncRef(const v1::Blocks& blocks);
  void DecRef(const v1::Blocks& blocks);
  void Fill(const v1::Blocks& blocks);
  // Reads the blocks and drops the bytes.
  void Read(const v1::Blocks& blocks);

 private:
  std::unique_ptr<v1::BlockService::Stub> stub_;
  std::string id_;
  grpc::ClientContext stream_context_;
  std::unique_ptr<grpc::ClientReader<v1::KeepAliveResponse>> stream_;
};

}  // namespace kvpool::bench
