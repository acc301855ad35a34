#include "tests/integration/hostile/held_streams.h"

#include <utility>

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include "core/check.h"
#include "tests/integration/hostile/own_channel.h"

namespace kvpool::test {

struct HeldStreams::Connection {
  explicit Connection(const std::string& address) : stub(OwnChannel(address)) {}
  grpc::GenericStub stub;
  grpc::CompletionQueue queue;
};

// One call: it starts, writes, and reads one message; each step begins when the last is done.
class HeldStreams::Stream {
 public:
  Stream(Connection& connection, const Options& options)
      : message_(options.message),
        is_last_(options.is_last),
        call_(connection.stub.PrepareCall(&context_, options.method, &connection.queue)) {
    call_->StartCall(this);
  }

  // Goes on where the last step went well. True where that was the last one.
  bool Step(bool ok) {
    ok_ = ok;
    step_ = ok ? step_ + 1 : kSteps;
    grpc::WriteOptions how;
    if (is_last_) how.set_last_message();
    if (step_ == 1) call_->Write(grpc::ByteBuffer(&message_, 1), how, this);
    if (step_ == 2) call_->Read(&answer_, this);
    return step_ == kSteps;
  }
  bool is_answered() const { return step_ == kSteps && ok_; }
  void Cancel() { context_.TryCancel(); }

 private:
  static constexpr int kSteps = 3;

  grpc::ClientContext context_;
  const grpc::Slice message_;
  const bool is_last_;
  grpc::ByteBuffer answer_;
  const std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  int step_ = 0;
  bool ok_ = true;
};

HeldStreams::HeldStreams(const Options& options)
    : connection_(std::make_unique<Connection>(options.address)), waiting_count_(options.count) {
  for (size_t i = 0; i < options.count; ++i) {
    streams_.push_back(std::make_unique<Stream>(*connection_, options));
  }
  thread_ = std::jthread([this] { Drive(); });
}

HeldStreams::~HeldStreams() {
  for (const auto& stream : streams_) stream->Cancel();
  // A call may be destroyed only when no step of it is to come.
  thread_.join();
}

void HeldStreams::Drive() {
  size_t left_count = streams_.size();
  while (left_count > 0) {
    void* tag = nullptr;
    bool ok = false;
    KVPOOL_CHECK(connection_->queue.Next(&tag, &ok));
    Stream& stream = *static_cast<Stream*>(tag);
    if (!stream.Step(ok)) continue;
    --left_count;
    const MutexLock lock(mutex_);
    waiting_count_ = left_count;
    answered_count_ += stream.is_answered() ? 1U : 0U;
    changed_.notify_all();
  }
}

size_t HeldStreams::WaitForAnswers() {
  const MutexLock lock(mutex_);
  while (waiting_count_ > 0) changed_.wait(mutex_);
  return answered_count_;
}

}  // namespace kvpool::test
