// A bare gRPC echo server on the callback API: the floor that the daemon's calls stand on.
//
//   kvpool_echo_server unix:/path

#include <unistd.h>

#include <cstdio>

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "tests/bench/system/echo.grpc.pb.h"

namespace {

// Reads a message, writes it, reads the next.
class EchoStream final
    : public grpc::ServerBidiReactor<kvpool::bench::EchoMessage, kvpool::bench::EchoMessage> {
 public:
  EchoStream() { StartRead(&message_); }

 private:
  void OnReadDone(bool ok) override {
    if (ok) {
      StartWrite(&message_);
    } else {
      Finish(grpc::Status::OK);
    }
  }
  void OnWriteDone(bool ok) override {
    if (ok) {
      StartRead(&message_);
    } else {
      Finish(grpc::Status::CANCELLED);
    }
  }
  void OnDone() override { delete this; }

  kvpool::bench::EchoMessage message_;
};

class EchoService final : public kvpool::bench::Echo::CallbackService {
  grpc::ServerUnaryReactor* Unary(grpc::CallbackServerContext* context,
                                  const kvpool::bench::EchoMessage* request,
                                  kvpool::bench::EchoMessage* response) override {
    response->set_data(request->data());
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerBidiReactor<kvpool::bench::EchoMessage, kvpool::bench::EchoMessage>* Stream(
      grpc::CallbackServerContext* /*context*/) override {
    return new EchoStream;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: kvpool_echo_server unix:/path\n");
    return 2;
  }
  EchoService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(argv[1], grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::printf("ready\n");
  std::fflush(stdout);
  // Until whoever started it closes its stdin.
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  server->Shutdown();
  return 0;
}
