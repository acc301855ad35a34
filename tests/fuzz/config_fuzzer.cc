// Texts of config files. What is refused says where and why in one printable line; what is taken
// can be served as far as the text can tell.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "core/layout/pool_layout.h"
#include "server/config.h"
#include "server/limits.h"
#include "tests/fuzz/finding.h"
#include "tests/fuzz/text_check.h"

namespace kvpool::test {
namespace {

void CheckConfig(const server::Config& config) {
  std::set<std::string> names;
  for (const PoolSpec& spec : config.pools) {
    Expect(names.insert(spec.name).second, "two pools of the name " + spec.name);
    Expect(spec.memory_utilization.has_value() || PlanPool(spec).ok(), "a pool that has no layout");
  }
  std::set<std::string> paths;
  for (const server::ListenerSpec& listener : config.listeners) {
    Expect(listener.path.starts_with('/') && listener.path.size() <= server::kMaxSocketPathBytes,
           "a listener at " + listener.path);
    Expect(paths.insert(listener.path).second, "two listeners at " + listener.path);
    Expect(listener.mode <= 0777, "a mode that is none");
    Expect(listener.role != v1::ROLE_UNSPECIFIED, "a listener without a role");
  }
}

}  // namespace
}  // namespace kvpool::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvpool::test;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = kvpool::server::ParseConfig("a-file", text);
  if (config.ok()) {
    CheckConfig(*config);
  } else {
    CheckRefusal(config.status(), "a-file: ");
  }
  return 0;
}
