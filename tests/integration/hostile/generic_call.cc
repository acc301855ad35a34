#include "tests/integration/hostile/generic_call.h"

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include "client/status_from_grpc.h"
#include "core/check.h"
#include "tests/integration/hostile/own_channel.h"
#include "tests/support/send_all.h"

namespace kvpool::test {

struct GenericCaller::Connection {
  explicit Connection(const std::string& address) : channel(OwnChannel(address)) {}
  std::shared_ptr<grpc::Channel> channel;
};

GenericCaller::GenericCaller(const std::string& address)
    : connection_(std::make_unique<Connection>(address)) {}

GenericCaller::~GenericCaller() = default;

absl::Status GenericCaller::Call(const std::string& method,
                                 const std::vector<std::string>& messages,
                                 std::chrono::milliseconds deadline) {
  grpc::GenericStub stub(connection_->channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline);
  grpc::CompletionQueue queue;
  const auto stream = stub.PrepareCall(&context, method, &queue);
  // One step at a time; false where the stream has ended.
  const auto step = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    KVPOOL_CHECK(queue.Next(&tag, &ok));
    return ok;
  };
  SendAll(*stream, messages, step);
  grpc::ByteBuffer answer;
  do {
    answer.Clear();
    stream->Read(&answer, nullptr);
  } while (step());
  grpc::Status status;
  stream->Finish(&status, nullptr);
  step();
  return client::StatusFromGrpc(status);
}

}  // namespace kvpool::test
