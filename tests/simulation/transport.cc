#include "tests/simulation/transport.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace kvpool::simulation {
namespace {

// A worker's keyed calls of which one may come before a copy of an earlier one does: fewer than the
// answers that the daemon remembers.
constexpr uint64_t kLatestCopy = 40;

absl::Status Gone() { return absl::CancelledError("the process is gone"); }
absl::Status Lost(const char* what) {
  return absl::UnavailableError(std::string(what) + " was lost");
}

template <typename Request>
constexpr bool kHasWait =
    std::is_same_v<Request, v1::AllocRequest> || std::is_same_v<Request, v1::AcquireRequest>;

// 0: none.
template <typename Request>
uint64_t KeyOf(const Request& request) {
  if constexpr (requires { request.idempotency_key(); }) return request.idempotency_key();
  return 0;
}

template <typename Request>
bool HasWait(const Request& request) {
  if constexpr (kHasWait<Request>) return request.has_wait();
  return false;
}

// A session's stream, at the daemon's end of it: what comes out is at the worker's.
class Stream final : public server::SessionStream {
 public:
  struct Out {
    std::deque<v1::Notice> notices;
    FlightPtr flight;  // Over once there is something.
    bool has_ended = false;
    absl::Status end;
  };

  Stream(Link& link, std::shared_ptr<Out> out, test::Random& random)
      : link_(link), out_(std::move(out)), random_(random) {}

  void Send(const v1::Notice& notice) override {
    Deliver([link = &link_, out = out_, notice] {
      out->notices.push_back(notice);
      link->Finish(out->flight, absl::OkStatus());
    });
  }

  void End(const absl::Status& status) override {
    Deliver([link = &link_, out = out_, status] {
      out->has_ended = true;
      out->end = status;
      link->Finish(out->flight, absl::OkStatus());
    });
  }

 private:
  // In order.
  void Deliver(Scheduler::Work work) {
    Scheduler& scheduler = link_.process().scheduler;
    last_ = std::max(last_, scheduler.now() + std::chrono::microseconds(random_.Below(1000)));
    scheduler.After(last_ - scheduler.now(), std::move(work), &link_.process());
  }

  Link& link_;
  const std::shared_ptr<Out> out_;
  test::Random& random_;
  TimePoint last_{};
};

}  // namespace

template <typename Request, typename Response>
struct Transport::Arrived : ArrivedCall {
  Request request;
  Response response;
};

template <typename Request>
void Transport::Note(const Request& request, const char* what) {
  scheduler().Note([&] {
    return absl::StrCat("  ", request.GetDescriptor()->name(), " ", what, ": ",
                        request.ShortDebugString());
  });
}

template <typename Call>
void Transport::NoteAnswer(const Call& call, const absl::Status& status) {
  scheduler().Note([&] {
    const std::string& name = call.request.GetDescriptor()->name();
    const bool is_told = status.ok() && name != "OpenSessionRequest";
    return absl::StrCat("  ", name, " is answered: ",
                        is_told ? call.response.ShortDebugString() : status.ToString());
  });
}

Duration Transport::Delay() {
  if (OneIn(link_.network().weather.slow)) {
    return std::chrono::milliseconds(random().Below(10'000));
  }
  return std::chrono::microseconds(random().Below(500));
}

template <typename Request, typename Response, typename Arrive>
absl::Status Transport::Run(const Request& request, const client::CallContext& call,
                            Response& response, Arrive arrive) {
  if (link_.process().is_dead()) return Gone();
  const Daemon::ConnectionPtr connection = link_.Connect();
  const FlightPtr flight = link_.Begin();
  const auto arrived = std::make_shared<Arrived<Request, Response>>();
  arrived->request = request;
  const auto finish_later = [&](const absl::Status& status) {
    scheduler().After(
        Delay(), [this, flight, status] { link_.Finish(flight, status); }, &link_.process());
  };
  if (connection == nullptr) {
    finish_later(absl::UnavailableError("no daemon"));
  } else if (OneIn(link_.network().weather.lost_requests)) {
    Note(request, "is lost");
    finish_later(Lost("the request"));
  } else {
    Send(connection, flight, arrived, arrive);
    if (!HasWait(request) && OneIn(link_.network().weather.doubled)) {
      SendAgain<Request, Response>(connection, request, arrive);
    }
  }
  absl::Status status = link_.Await(flight, call.timeout, call.cancellation);
  if (link_.process().is_dead()) return Gone();
  if (status.ok()) {
    response.Swap(&arrived->response);
  } else if (!arrived->is_answered) {
    // gRPC tells the daemon that nobody waits.
    scheduler().After(Delay(), [arrived] { arrived->canceller.Cancel(); });
  }
  return status;
}

template <typename Request, typename Response, typename Arrive>
void Transport::Send(const Daemon::ConnectionPtr& connection, const FlightPtr& flight,
                     const std::shared_ptr<Arrived<Request, Response>>& arrived, Arrive arrive) {
  const auto answer = [this, flight, arrived](const absl::Status& status) {
    arrived->is_answered = true;
    link_.KeyIsAnswered(KeyOf(arrived->request), status.ok());
    NoteAnswer(*arrived, status);
    const bool is_lost = OneIn(link_.network().weather.lost_answers);
    scheduler().After(
        Delay(),
        [this, flight, status = is_lost ? Lost("the answer") : status] {
          link_.Finish(flight, status);
        },
        &link_.process());
  };
  scheduler().After(Delay(), [this, connection, flight, arrived, arrive, answer] {
    // As a daemon drops what nobody waits for any more.
    if (connection->is_broken() || flight->is_over) return;
    Note(arrived->request, "arrives");
    link_.KeyArrives(KeyOf(arrived->request));
    arrive(*link_.network().daemon, *connection, *arrived, arrived, answer);
  });
}

template <typename Request, typename Response, typename Arrive>
void Transport::SendAgain(const Daemon::ConnectionPtr& connection, const Request& request,
                          Arrive arrive) {
  const auto copy = std::make_shared<Arrived<Request, Response>>();
  copy->request = request;
  const uint64_t latest = link_.keyed_calls + kLatestCopy;
  scheduler().After(10 * Delay(), [this, connection, copy, arrive, latest] {
    if (connection->is_broken() || link_.keyed_calls > latest) return;
    // What has failed is over, as only answers of success are remembered; and a copy would take the
    // place of what still waits.
    if (!link_.MayRepeat(KeyOf(copy->request))) return;
    Note(copy->request, "arrives again");
    arrive(*link_.network().daemon, *connection, *copy, copy,
           [](const absl::Status& /*status*/) {});
  });
}

absl::Status Transport::OpenSession(const v1::OpenSessionRequest& request,
                                    const client::CallContext& call,
                                    v1::OpenSessionResponse& response) {
  return Run(request, call, response,
             [](Daemon& daemon, Daemon::Connection& connection, auto& arrived, const auto& /*self*/,
                const Daemon::Done& done) {
               daemon.OpenSession(connection, arrived.request, arrived.response, done);
             });
}

absl::Status Transport::CloseSession(const v1::CloseSessionRequest& request,
                                     const client::CallContext& call,
                                     v1::CloseSessionResponse& response) {
  return Run(
      request, call, response,
      [](Daemon& daemon, Daemon::Connection& connection, auto& arrived, const auto& /*self*/,
         const Daemon::Done& done) { daemon.CloseSession(connection, arrived.request, done); });
}

absl::Status Transport::Alloc(const v1::AllocRequest& request, const client::CallContext& call,
                              v1::AllocResponse& response) {
  ++link_.keyed_calls;
  return Run(request, call, response,
             [](Daemon& daemon, Daemon::Connection& connection, auto& arrived, const auto& self,
                const Daemon::Done& done) {
               daemon.Alloc(connection, arrived.request, arrived.response, self, done);
             });
}

absl::Status Transport::Acquire(const v1::AcquireRequest& request, const client::CallContext& call,
                                v1::AcquireResponse& response) {
  ++link_.keyed_calls;
  return Run(request, call, response,
             [](Daemon& daemon, Daemon::Connection& connection, auto& arrived, const auto& self,
                const Daemon::Done& done) {
               daemon.Acquire(connection, arrived.request, arrived.response, self, done);
             });
}

absl::Status Transport::IncRef(const v1::IncRefRequest& request, const client::CallContext& call,
                               v1::IncRefResponse& response) {
  ++link_.keyed_calls;
  return Run(request, call, response,
             [](Daemon& daemon, Daemon::Connection& connection, auto& arrived, const auto& /*self*/,
                const Daemon::Done& done) { daemon.IncRef(connection, arrived.request, done); });
}

absl::Status Transport::DecRef(const v1::DecRefRequest& request, const client::CallContext& call,
                               v1::DecRefResponse& response) {
  ++link_.keyed_calls;
  return Run(request, call, response,
             [](Daemon& daemon, Daemon::Connection& connection, auto& arrived, const auto& /*self*/,
                const Daemon::Done& done) {
               daemon.DecRef(connection, arrived.request, arrived.response, done);
             });
}

absl::Status Transport::Publish(const v1::PublishRequest& request, const client::CallContext& call,
                                v1::PublishResponse& response) {
  ++link_.keyed_calls;
  return Run(request, call, response,
             [](Daemon& daemon, Daemon::Connection& connection, auto& arrived, const auto& /*self*/,
                const Daemon::Done& done) {
               daemon.Publish(connection, arrived.request, arrived.response, done);
             });
}

absl::Status Transport::Lookup(const v1::LookupRequest& request, const client::CallContext& call,
                               v1::LookupResponse& response) {
  ++link_.keyed_calls;
  return Run(request, call, response,
             [](Daemon& daemon, Daemon::Connection& connection, auto& arrived, const auto& /*self*/,
                const Daemon::Done& done) {
               daemon.Lookup(connection, arrived.request, arrived.response, done);
             });
}

absl::Status Transport::Evict(const v1::EvictRequest& request, const client::CallContext& call,
                              v1::EvictResponse& response) {
  return Run(request, call, response,
             [](Daemon& daemon, Daemon::Connection& connection, auto& arrived, const auto& /*self*/,
                const Daemon::Done& done) {
               daemon.Evict(connection, arrived.request, arrived.response, done);
             });
}

absl::Status Transport::KeepAlive(
    const v1::KeepAliveRequest& request, client::Cancellation& cancellation,
    absl::FunctionRef<void(const v1::KeepAliveResponse&)> on_message) {
  if (link_.process().is_dead()) return Gone();
  const Daemon::ConnectionPtr connection = link_.Connect();
  if (connection == nullptr) return absl::UnavailableError("no daemon");
  const auto out = std::make_shared<Stream::Out>();
  const auto stream = std::make_shared<Stream>(link_, out, random());
  const auto break_stream = std::make_shared<std::function<void()>>([] {});
  const auto is_wanted = std::make_shared<bool>(true);
  out->flight = link_.Begin();
  scheduler().After(
      Delay(), [this, connection, stream, break_stream, is_wanted, session = request.session_id()] {
        if (connection->is_broken() || !*is_wanted) return;
        absl::StatusOr<std::function<void()>> attached =
            link_.network().daemon->KeepAlive(*connection, session, stream);
        if (attached.ok()) {
          *break_stream = *std::move(attached);
        } else {
          stream->End(attached.status());
        }
      });
  // A day; the stream has no deadline.
  absl::Status end;
  while (true) {
    end = link_.Await(out->flight, std::chrono::hours(24), cancellation);
    if (!end.ok() || link_.process().is_dead()) break;
    while (!out->notices.empty()) {
      v1::KeepAliveResponse response;
      *response.mutable_notice() = out->notices.front();
      out->notices.pop_front();
      on_message(response);
    }
    if (out->has_ended) break;
    if (!link_.IsCurrent(connection)) {
      end = absl::UnavailableError("the connection broke");
      break;
    }
    out->flight = link_.Begin();
  }
  *is_wanted = false;
  if (link_.process().is_dead()) return Gone();
  if (end.ok()) return out->end;
  // gRPC tells the daemon.
  scheduler().After(Delay(), [break_stream] { (*break_stream)(); });
  return end;
}

absl::Status Transport::FillBlocks(const v1::FillBlocksRequest& /*request*/,
                                   const client::CallContext& /*call*/,
                                   v1::FillBlocksResponse& /*response*/) {
  return absl::UnimplementedError("not simulated");
}

absl::Status Transport::CopyBlocks(const v1::CopyBlocksRequest& /*request*/,
                                   const client::CallContext& /*call*/,
                                   v1::CopyBlocksResponse& /*response*/) {
  return absl::UnimplementedError("not simulated");
}

absl::Status Transport::ReadBlocks(
    const v1::ReadBlocksRequest& /*request*/, const client::CallContext& /*call*/,
    absl::FunctionRef<bool(const v1::ReadBlocksResponse&)> /*on_message*/) {
  return absl::UnimplementedError("not simulated");
}

absl::Status Transport::WriteBlocks(const client::CallContext& /*call*/,
                                    absl::FunctionRef<bool(v1::WriteBlocksRequest&)> /*next*/,
                                    v1::WriteBlocksResponse& /*response*/) {
  return absl::UnimplementedError("not simulated");
}

absl::StatusOr<client::OwnedFd> Transport::GetRegionFd(const v1::RegionFdRequest& /*request*/,
                                                       const client::CallContext& /*call*/,
                                                       v1::RegionFdResponse& /*response*/) {
  return absl::UnimplementedError("not simulated");
}

}  // namespace kvpool::simulation
