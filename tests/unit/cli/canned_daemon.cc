#include "tests/unit/cli/canned_daemon.h"

#include <condition_variable>
#include <map>
#include <set>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "core/check.h"
#include "core/mutex.h"
#include "kvpool/internal/status.pb.h"
#include "kvpool/v1/admin.grpc.pb.h"
#include "kvpool/v1/block.pb.h"
#include "kvpool/v1/inspect.grpc.pb.h"

namespace kvpool::test {

// What was told and what was asked, shared with the handlers.
class CannedDaemon::State {
 public:
  void Answer(const std::string& method, const google::protobuf::Message& response) {
    const MutexLock lock(mutex_);
    statuses_[method] = grpc::Status::OK;
    answers_[method].push_back(response.SerializeAsString());
  }

  void Fail(const std::string& method, grpc::Status status) {
    const MutexLock lock(mutex_);
    statuses_[method] = std::move(status);
  }

  void Hang(const std::string& method) {
    const MutexLock lock(mutex_);
    hanging_.insert(method);
  }

  void Stop() {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
    stopping_.notify_all();
  }

  std::string LastRequest(const std::string& method) const {
    const MutexLock lock(mutex_);
    const auto found = requests_.find(method);
    return found == requests_.end() ? "" : found->second;
  }

  // What `method` answers to `request`, all of it.
  grpc::Status Serve(const std::string& method, const google::protobuf::Message& request,
                     std::vector<std::string>& responses) {
    const MutexLock lock(mutex_);
    requests_[method] = request.ShortDebugString();
    while (hanging_.contains(method) && !is_stopping_) stopping_.wait(mutex_);
    const auto status = statuses_.find(method);
    if (status == statuses_.end())
      return {grpc::StatusCode::UNIMPLEMENTED, "not told of " + method};
    if (status->second.ok()) responses = answers_[method];
    return status->second;
  }

  grpc::Status ServeOne(const std::string& method, const google::protobuf::Message& request,
                        google::protobuf::Message& response) {
    std::vector<std::string> responses;
    const grpc::Status status = Serve(method, request, responses);
    if (status.ok()) KVPOOL_CHECK(response.ParseFromString(responses.back()));
    return status;
  }

  template <typename Response>
  grpc::Status ServeList(const std::string& method, const google::protobuf::Message& request,
                         grpc::ServerWriter<Response>& writer) {
    std::vector<std::string> responses;
    grpc::Status status = Serve(method, request, responses);
    for (const std::string& bytes : responses) {
      Response response;
      KVPOOL_CHECK(response.ParseFromString(bytes));
      writer.Write(response);
    }
    return status;
  }

 private:
  mutable Mutex mutex_;
  std::condition_variable_any stopping_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::string> hanging_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, grpc::Status> statuses_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<std::string>> answers_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> requests_ ABSL_GUARDED_BY(mutex_);
};

#define KVPOOL_CANNED(method)                                                   \
  grpc::Status method(grpc::ServerContext*, const v1::method##Request* request, \
                      v1::method##Response* response) override {                \
    return state_->ServeOne(#method, *request, *response);                      \
  }

#define KVPOOL_CANNED_LIST(method)                                                 \
  grpc::Status method(grpc::ServerContext*, const v1::method##Request* request,    \
                      grpc::ServerWriter<v1::method##Response>* writer) override { \
    return state_->ServeList(#method, *request, *writer);                          \
  }

class CannedDaemon::Inspect final : public v1::InspectService::Service {
 public:
  explicit Inspect(std::shared_ptr<State> state) : state_(std::move(state)) {}

  KVPOOL_CANNED(GetDaemon)
  KVPOOL_CANNED(GetPool)
  KVPOOL_CANNED(PlanPool)
  KVPOOL_CANNED(GetSession)
  KVPOOL_CANNED(GetBlock)
  KVPOOL_CANNED(ChecksumLayers)

  KVPOOL_CANNED_LIST(ListPools)
  KVPOOL_CANNED_LIST(ListSessions)
  KVPOOL_CANNED_LIST(ListBlocks)
  KVPOOL_CANNED_LIST(ChecksumBlocks)
  KVPOOL_CANNED_LIST(WatchPrefixes)

 private:
  const std::shared_ptr<State> state_;
};

class CannedDaemon::Admin final : public v1::AdminService::Service {
 public:
  explicit Admin(std::shared_ptr<State> state) : state_(std::move(state)) {}

  KVPOOL_CANNED(CreatePool)
  KVPOOL_CANNED(DeletePool)
  KVPOOL_CANNED(ResetPrefixes)
  KVPOOL_CANNED(TerminateSession)

 private:
  const std::shared_ptr<State> state_;
};

#undef KVPOOL_CANNED

class CannedDaemon::Health final : public grpc::health::v1::Health::Service {
 public:
  explicit Health(std::shared_ptr<State> state) : state_(std::move(state)) {}

  grpc::Status Check(grpc::ServerContext*, const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* response) override {
    return state_->ServeOne("Check", *request, *response);
  }

 private:
  const std::shared_ptr<State> state_;
};

struct CannedDaemon::Server {
  explicit Server(const std::shared_ptr<State>& state)
      : inspect(state), admin(state), health(state) {}

  Inspect inspect;
  Admin admin;
  Health health;
  std::unique_ptr<grpc::Server> server;
};

CannedDaemon::CannedDaemon(const std::string& path)
    : state_(std::make_shared<State>()), server_(std::make_unique<Server>(state_)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  builder.RegisterService(&server_->inspect);
  builder.RegisterService(&server_->admin);
  builder.RegisterService(&server_->health);
  server_->server = builder.BuildAndStart();
  KVPOOL_CHECK(server_->server != nullptr);
}

CannedDaemon::~CannedDaemon() {
  state_->Stop();
  server_->server->Shutdown();
  server_->server->Wait();
}

void CannedDaemon::Answer(const std::string& method, const google::protobuf::Message& response) {
  state_->Answer(method, response);
}

void CannedDaemon::Fail(const std::string& method, absl::StatusCode code, Reason reason,
                        const std::string& message) {
  std::string details;
  if (reason != Reason::kUnspecified) {
    v1::ErrorDetail detail;
    detail.set_reason(static_cast<v1::ErrorDetail::Reason>(reason));
    internal::Status status;
    status.set_code(static_cast<int>(code));
    status.set_message(message);
    status.add_details()->PackFrom(detail);
    details = status.SerializeAsString();
  }
  state_->Fail(method, grpc::Status(static_cast<grpc::StatusCode>(code), message, details));
}

void CannedDaemon::Hang(const std::string& method) { state_->Hang(method); }

std::string CannedDaemon::LastRequest(const std::string& method) const {
  return state_->LastRequest(method);
}

}  // namespace kvpool::test
