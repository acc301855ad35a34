// core/ is the pure part: it builds, and is tested, without gRPC, Protobuf, spdlog or the parts
// that stand on it.

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace kvpool {
namespace {

// What a line includes, or nothing.
std::string IncludedBy(const std::string& line) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"].*$)");
  std::smatch match;
  return std::regex_match(line, match, kInclude) ? match[1].str() : "";
}

bool IsForbidden(const std::string& header) {
  constexpr std::array<const char*, 11> kPrefixes = {"grpc/",   "grpcpp/", "grpc++/", "google/",
                                                     "spdlog/", "fmt/",    "json/",   "kvpool/",
                                                     "server/", "client/", "proto/"};
  return std::ranges::any_of(kPrefixes, [&](const char* p) { return header.starts_with(p); }) ||
         header.ends_with(".pb.h");
}

TEST_CASE("The check of core's includes knows what it looks for") {
  for (const char* line :
       {"#include <grpcpp/server.h>", "#include \"spdlog/spdlog.h\"", "  #  include <fmt/core.h>",
        "#include <google/protobuf/message.h>", "#include \"kvpool/v1/block.pb.h\"",
        "#include \"server/peer.h\"  // why", "#include \"block.grpc.pb.h\""}) {
    CAPTURE(line);
    CHECK(IsForbidden(IncludedBy(line)));
  }
  for (const char* line : {"#include <vector>", "#include \"core/ids.h\"", "// #include <fmt/a.h>",
                           "#include \"absl/status/status.h\"", "#include <openssl/evp.h>", ""}) {
    CAPTURE(line);
    CHECK_FALSE(IsForbidden(IncludedBy(line)));
  }
}

TEST_CASE("core includes no gRPC, Protobuf or spdlog, and nothing that stands on it") {
  const std::filesystem::path core = std::filesystem::path(KVPOOL_SOURCE_DIR) / "core";
  std::vector<std::string> forbidden;
  size_t file_count = 0;
  size_t include_count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(core)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".h" && extension != ".cc") continue;
    ++file_count;
    std::ifstream file(entry.path());
    REQUIRE(file.is_open());
    for (std::string line; std::getline(file, line);) {
      const std::string header = IncludedBy(line);
      if (header.empty()) continue;
      ++include_count;
      if (IsForbidden(header)) forbidden.push_back(entry.path().string() + ": " + header);
    }
  }
  CHECK(forbidden == std::vector<std::string>{});
  // There is something to check, and it was read.
  CHECK(file_count >= 20);
  CHECK(include_count >= 60);
}

}  // namespace
}  // namespace kvpool
