#include "tests/support/fake_daemon.h"

#include <chrono>
#include <utility>

#include "absl/strings/strip.h"
#include <grpcpp/grpcpp.h>

#include "core/check.h"
#include "tests/support/fake_block_service.h"

namespace kvpool::test {

struct FakeDaemon::Running {
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<FakeFdSocket> fd_socket;
};

FakeDaemon::FakeDaemon(const std::string& directory) : FakeDaemon(directory, Options{}) {}

FakeDaemon::FakeDaemon(const std::string& directory, Options options)
    : socket_("unix:" + directory + "/kvpool.sock"),
      service_(std::make_unique<FakeBlockService>(options)),
      running_(std::make_unique<Running>()) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(socket_, grpc::InsecureServerCredentials());
  builder.RegisterService(service_.get());
  running_->server = builder.BuildAndStart();
  KVPOOL_CHECK(running_->server != nullptr);
  running_->fd_socket = std::make_unique<FakeFdSocket>(
      directory + "/kvpool.sock.fd", service_->fd_, service_->size_bytes_,
      [this](const v1::RegionFdRequest& request) {
        const MutexLock lock(service_->mutex_);
        service_->requested_regions_.push_back(request.region_id());
      });
}

FakeDaemon::~FakeDaemon() {
  Resume();
  running_->server->Shutdown(std::chrono::system_clock::now());
  running_.reset();
}

const PoolLayout& FakeDaemon::layout() const { return service_->layout_; }

std::span<std::byte> FakeDaemon::memory() const { return service_->memory_; }

void FakeDaemon::LoseAnswers(const std::string& method, int count) {
  const MutexLock lock(service_->mutex_);
  service_->lost_[method] = count;
}

void FakeDaemon::RefuseNext(const std::string& method, const absl::Status& status) {
  const MutexLock lock(service_->mutex_);
  service_->refused_[method] = FakeStatusToGrpc(status);
}

void FakeDaemon::HoldNext(const std::string& method) {
  const MutexLock lock(service_->mutex_);
  service_->to_hold_ = method;
}

void FakeDaemon::Resume() {
  const MutexLock lock(service_->mutex_);
  service_->is_holding_ = false;
  service_->changed_.notify_all();
}

void FakeDaemon::WaitUntilHeld() {
  const MutexLock lock(service_->mutex_);
  while (!service_->is_holding_) service_->changed_.wait(service_->mutex_);
}

void FakeDaemon::Notify(const v1::Notice& notice) {
  const MutexLock lock(service_->mutex_);
  service_->NotifyAll(notice);
}

void FakeDaemon::EndStreams(const absl::Status& status) {
  const MutexLock lock(service_->mutex_);
  service_->EndAll(FakeStatusToGrpc(status));
}

void FakeDaemon::LeaveUnattached() {
  const MutexLock lock(service_->mutex_);
  service_->is_attaching_ = false;
}

void FakeDaemon::set_fd_answer(FakeFdSocket::Answer answer) {
  running_->fd_socket->set_answer(answer);
}

std::vector<uint64_t> FakeDaemon::Keys(const std::string& method) const {
  const MutexLock lock(service_->mutex_);
  const auto keys = service_->keys_.find(method);
  return keys == service_->keys_.end() ? std::vector<uint64_t>{} : keys->second;
}

size_t FakeDaemon::CallCount(const std::string& method) const { return Keys(method).size(); }

uint32_t FakeDaemon::ReferenceCount(BlockId block) const {
  const MutexLock lock(service_->mutex_);
  return service_->counts_.at(ToIndex(block));
}

uint32_t FakeDaemon::FreeCount() const {
  const MutexLock lock(service_->mutex_);
  return static_cast<uint32_t>(service_->free_.size());
}

uint32_t FakeDaemon::FindableCount() const {
  const MutexLock lock(service_->mutex_);
  return static_cast<uint32_t>(service_->findable_.size());
}

uint32_t FakeDaemon::DoneCount() const {
  const MutexLock lock(service_->mutex_);
  return service_->done_count_;
}

size_t FakeDaemon::SessionCount() const {
  const MutexLock lock(service_->mutex_);
  return service_->sessions_.size();
}

v1::OpenSessionRequest FakeDaemon::LastOpen() const {
  const MutexLock lock(service_->mutex_);
  return service_->last_open_;
}

v1::Prefix FakeDaemon::LastPrefix() const {
  const MutexLock lock(service_->mutex_);
  return service_->last_prefix_;
}

std::vector<uint64_t> FakeDaemon::RequestedRegions() const {
  const MutexLock lock(service_->mutex_);
  return service_->requested_regions_;
}

}  // namespace kvpool::test
