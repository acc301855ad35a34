#pragma once

#include <string>
#include <vector>

#include "tests/integration/support/node.h"

namespace kvpool::test {

// A pool "llama" on TestDevice(), with 64 blocks of Llama-3.1-8B's geometry: 2 MiB a block.
DaemonProcess::Options LlamaPool();

// What the demo came to.
struct DemoRun {
  int code = 0;  // As ChildProcess::Wait.
  std::string out;
  std::string err;
};

struct DemoOptions {
  std::string text = "Sixty-four bytes of text make four blocks of sixteen tokens each";
  std::vector<std::string> flags{};        // After those that say where the daemon is.
  std::vector<std::string> environment{};  // NAME=value.
};

// Runs kvpool_demo, with its workers, on the pool "llama" of `daemon`.
DemoRun RunDemo(const DaemonProcess& daemon, const DemoOptions& options);

}  // namespace kvpool::test
