#pragma once

#include <memory>
#include <utility>

#include "client/transport.h"
#include "tests/simulation/link.h"

namespace kvpool::simulation {

// Carries a worker's calls over its link, in the weather of the day. Its fibers' alone.
class Transport final : public client::Transport {
 public:
  // `link` outlives it.
  explicit Transport(Link& link) : link_(link) {}

  absl::Status OpenSession(const v1::OpenSessionRequest& request, const client::CallContext& call,
                           v1::OpenSessionResponse& response) override;
  absl::Status CloseSession(const v1::CloseSessionRequest& request, const client::CallContext& call,
                            v1::CloseSessionResponse& response) override;
  absl::Status Alloc(const v1::AllocRequest& request, const client::CallContext& call,
                     v1::AllocResponse& response) override;
  absl::Status IncRef(const v1::IncRefRequest& request, const client::CallContext& call,
                      v1::IncRefResponse& response) override;
  absl::Status DecRef(const v1::DecRefRequest& request, const client::CallContext& call,
                      v1::DecRefResponse& response) override;
  absl::Status Publish(const v1::PublishRequest& request, const client::CallContext& call,
                       v1::PublishResponse& response) override;
  absl::Status Lookup(const v1::LookupRequest& request, const client::CallContext& call,
                      v1::LookupResponse& response) override;
  absl::Status Acquire(const v1::AcquireRequest& request, const client::CallContext& call,
                       v1::AcquireResponse& response) override;
  absl::Status Evict(const v1::EvictRequest& request, const client::CallContext& call,
                     v1::EvictResponse& response) override;
  absl::Status KeepAlive(const v1::KeepAliveRequest& request, client::Cancellation& cancellation,
                         absl::FunctionRef<void(const v1::KeepAliveResponse&)> on_message) override;

  // Bytes are moved by hand here.
  absl::Status FillBlocks(const v1::FillBlocksRequest& request, const client::CallContext& call,
                          v1::FillBlocksResponse& response) override;
  absl::Status CopyBlocks(const v1::CopyBlocksRequest& request, const client::CallContext& call,
                          v1::CopyBlocksResponse& response) override;
  absl::Status ReadBlocks(
      const v1::ReadBlocksRequest& request, const client::CallContext& call,
      absl::FunctionRef<bool(const v1::ReadBlocksResponse&)> on_message) override;
  absl::Status WriteBlocks(const client::CallContext& call,
                           absl::FunctionRef<bool(v1::WriteBlocksRequest&)> next,
                           v1::WriteBlocksResponse& response) override;
  absl::StatusOr<client::OwnedFd> GetRegionFd(const v1::RegionFdRequest& request,
                                              const client::CallContext& call,
                                              v1::RegionFdResponse& response) override;

 private:
  template <typename Request, typename Response>
  struct Arrived;
  template <typename Request, typename Response, typename Arrive>
  absl::Status Run(const Request& request, const client::CallContext& call, Response& response,
                   Arrive arrive);
  template <typename Request, typename Response, typename Arrive>
  void Send(const Daemon::ConnectionPtr& connection, const FlightPtr& flight,
            const std::shared_ptr<Arrived<Request, Response>>& arrived, Arrive arrive);
  template <typename Request, typename Response, typename Arrive>
  void SendAgain(const Daemon::ConnectionPtr& connection, const Request& request, Arrive arrive);
  template <typename Request>
  void Note(const Request& request, const char* what);
  template <typename Call>
  void NoteAnswer(const Call& call, const absl::Status& status);

  bool OneIn(uint32_t n) { return n > 0 && random().OneIn(n); }
  Duration Delay();
  test::Random& random() { return link_.process().random; }
  Scheduler& scheduler() { return link_.process().scheduler; }

  Link& link_;
};

}  // namespace kvpool::simulation
