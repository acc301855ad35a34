#include "tests/bench/system/echo_process.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "core/check.h"

namespace kvpool::bench {

EchoProcess::EchoProcess()
    : process_({.arguments = {KVPOOL_ECHO_SERVER, "unix:" + directory_.File("echo.sock")},
                .environment = {},
                .stderr_path = {},
                .uid = {}}) {
  KVPOOL_CHECK(process_.ReadLine() == "ready");
  stub_ = Echo::NewStub(grpc::CreateChannel("unix:" + directory_.File("echo.sock"),
                                            grpc::InsecureChannelCredentials()));
}

void EchoProcess::Call(size_t size_bytes) {
  EchoMessage request;
  request.set_data(std::string(size_bytes, 'x'));
  EchoMessage response;
  grpc::ClientContext context;
  KVPOOL_CHECK(stub_->Unary(&context, request, &response).ok());
}

}  // namespace kvpool::bench
