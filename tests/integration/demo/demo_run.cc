#include "tests/integration/demo/demo_run.h"

#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "tests/integration/support/test_device.h"
#include "tests/support/child_process.h"

namespace kvpool::test {

DaemonProcess::Options LlamaPool() {
  return {.pools_json = R"([{"name": "llama", "num_layers": 32, "num_kv_heads": 8, "head_dim": 128,
                            "dtype": "bf16", "num_blocks": 64)" +
                        DevicesJson() + "}]"};
}

DemoRun RunDemo(const DaemonProcess& daemon, const DemoOptions& options) {
  std::vector<std::string> arguments = {KVPOOL_DEMO, "run", "--socket=" + daemon.worker_socket(),
                                        "--pool=llama", "--text=" + options.text};
  arguments.insert(arguments.end(), options.flags.begin(), options.flags.end());
  const std::string err = daemon.directory().File("demo");
  ChildProcess process({.arguments = std::move(arguments),
                        .environment = options.environment,
                        .stderr_path = err,
                        .uid = std::nullopt});
  DemoRun run;
  run.out = process.ReadAll();
  run.code = process.Wait();
  std::stringstream text;
  text << std::ifstream(err).rdbuf();
  run.err = text.str();
  return run;
}

}  // namespace kvpool::test
