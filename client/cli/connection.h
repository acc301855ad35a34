#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include "kvpool/v1/admin.grpc.pb.h"
#include "kvpool/v1/block.grpc.pb.h"
#include "kvpool/v1/inspect.grpc.pb.h"

namespace kvpool::cli {

// A connection to one daemon, made when first used. Each call has `timeout`, which may be infinite,
// for its deadline.
//
// Not thread-safe.
class Connection {
 public:
  Connection(std::string socket, absl::Duration timeout);

  // Calls `method` of a stub, which is given below, and waits for the answer. The status has the
  // daemon's ErrorDetail; where nobody answers, its message says at which socket.
  template <typename Stub, typename Request, typename Response>
  absl::Status Call(Stub& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    return Run(
        [&](grpc::ClientContext& context) { return (stub.*method)(&context, request, response); });
  }

  // Calls a `method` that answers with a list in several messages; `response` has all of it.
  template <typename Stub, typename Request, typename Response>
  absl::Status CallList(Stub& stub,
                        std::unique_ptr<grpc::ClientReader<Response>> (Stub::*method)(
                            grpc::ClientContext*, const Request&),
                        const Request& request, Response* response) {
    return Run([&](grpc::ClientContext& context) {
      const auto reader = (stub.*method)(&context, request);
      Response part;
      while (reader->Read(&part)) response->MergeFrom(part);
      return reader->Finish();
    });
  }

  // Calls a `method` that answers as things happen, and hands `take` each message as it comes. Ends
  // with CANCELLED at a stop.
  template <typename Response, typename Stub, typename Request>
  absl::Status CallStream(Stub& stub,
                          std::unique_ptr<grpc::ClientReader<Response>> (Stub::*method)(
                              grpc::ClientContext*, const Request&),
                          const Request& request, const std::stop_token& stop,
                          const std::function<void(const Response&)>& take) {
    return Run([&](grpc::ClientContext& context) {
      const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
      const auto reader = (stub.*method)(&context, request);
      Response message;
      while (reader->Read(&message)) take(message);
      return reader->Finish();
    });
  }

  // "unix:" and a path.
  const std::string& socket() const { return socket_; }

  v1::BlockService::Stub& blocks() { return *blocks_; }
  v1::InspectService::Stub& inspect() { return *inspect_; }
  v1::AdminService::Stub& admin() { return *admin_; }
  grpc::health::v1::Health::Stub& health() { return *health_; }

 private:
  absl::Status Run(const std::function<grpc::Status(grpc::ClientContext&)>& call);

  const std::string socket_;
  const absl::Duration timeout_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::BlockService::Stub> blocks_;
  const std::unique_ptr<v1::InspectService::Stub> inspect_;
  const std::unique_ptr<v1::AdminService::Stub> admin_;
  const std::unique_ptr<grpc::health::v1::Health::Stub> health_;
};

}  // namespace kvpool::cli
