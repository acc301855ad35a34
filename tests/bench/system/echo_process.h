#pragma once

#include <memory>
#include <string>

#include <grpcpp/channel.h>

#include "tests/bench/system/echo.grpc.pb.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace kvpool::bench {

// A bare echo server in a process of its own, and a client of it.
class EchoProcess {
 public:
  EchoProcess();

  // One call with `size_bytes` there and back.
  void Call(size_t size_bytes);

  Echo::Stub& stub() { return *stub_; }

 private:
  test::TempDir directory_;
  test::ChildProcess process_;
  std::unique_ptr<Echo::Stub> stub_;
};

}  // namespace kvpool::bench
