#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_daemon.h"
#include "tests/support/temp_dir.h"

namespace kvpool::client {
namespace {

// Runs a command to its end, its output shown where it fails.
void Run(const std::vector<std::string>& command) {
  test::ChildProcess child(
      {.arguments = command, .environment = {}, .stderr_path = "", .uid = std::nullopt});
  const std::string output = child.ReadAll();
  CAPTURE(command, output);
  REQUIRE(child.Wait() == 0);
}

// The one program in README, as it stands there.
std::string ReadmeWorker() {
  const std::string first_line = "```cpp\n";
  std::stringstream readme;
  readme << std::ifstream(KVPOOL_SOURCE_DIR "/README.md").rdbuf();
  const std::string text = readme.str();
  const size_t first = text.find(first_line);
  REQUIRE(first != std::string::npos);
  const size_t begin = first + first_line.size();
  REQUIRE(text.find(first_line, begin) == std::string::npos);
  return text.substr(begin, text.find("```\n", begin) - begin);
}

// What README says of it: the first block's K in layer 0 is written and published, and nothing is
// held when it has ended.
void CheckReadmeWorker(const std::string& program) {
  PoolSpec spec;
  spec.name = "llama";
  spec.num_layers = 32;
  spec.num_kv_heads = 8;
  spec.head_dim = 128;
  spec.dtype = "bf16";
  spec.num_blocks = 4;
  const test::TempDir directory;
  const test::FakeDaemon daemon(directory.path().string(), {.spec = spec});
  test::ChildProcess worker({.arguments = {program, daemon.socket()},
                             .environment = {},
                             .stderr_path = "",
                             .uid = std::nullopt});
  CHECK(worker.ReadAll() == "OK\n");
  CHECK(worker.Wait() == 0);

  const SideLayout& k = daemon.layout().layers.front().k;
  const auto written = daemon.memory().subspan(k.offset_bytes, k.block_bytes);
  CHECK(std::ranges::count(written, std::byte{1}) == static_cast<std::ptrdiff_t>(written.size()));
  CHECK(daemon.CallCount("Publish") == 1);
  CHECK(daemon.CallCount("Acquire") == 1);
  CHECK(test::Eventually([&] { return daemon.SessionCount() == 0; }));
  CHECK(daemon.ReferenceCount(BlockId{0}) == 0);
  CHECK(daemon.FindableCount() == 1);
}

// Names in the comments of `text` that are files', such as "core/error.h".
std::vector<std::string> NamedFiles(const std::string& text) {
  static const std::regex name(R"([A-Za-z0-9_./-]*[A-Za-z0-9_]\.(h|cc|proto|md|json|cmake|sh)\b)");
  std::vector<std::string> names;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    const size_t comment = line.find("//");
    if (comment == std::string::npos) continue;
    const std::string words = line.substr(comment);
    for (auto it = std::sregex_iterator(words.begin(), words.end(), name);
         it != std::sregex_iterator(); ++it) {
      names.push_back(it->str());
    }
  }
  return names;
}

// The files below `directory` whose names end so.
std::vector<std::filesystem::path> FilesBelow(const std::string& directory,
                                              const std::vector<std::string>& extensions) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file() &&
        std::ranges::count(extensions, entry.path().extension().string()) > 0) {
      files.push_back(entry.path());
    }
  }
  return files;
}

// Whether some installed file's path ends in `name`.
bool IsInstalled(const std::string& prefix, const std::string& name) {
  const std::filesystem::path named(name);
  const auto files = FilesBelow(prefix, {named.extension().string()});
  return std::ranges::any_of(files, [&](const std::filesystem::path& file) {
    return ("/" + file.string()).ends_with("/" + named.string());
  });
}

TEST_CASE("The package has the protos, the licence, and every file that its headers name") {
  const test::TempDir directory;
  const std::string prefix = directory.File("prefix");
  Run({KVPOOL_CMAKE, "--install", KVPOOL_BUILD_DIR, "--prefix", prefix, "--component", "client"});
  for (const std::string file :
       {"share/doc/kvpool/LICENSE", "share/doc/kvpool/CHANGELOG.md",
        "share/doc/kvpool/prefix-keys.md", "share/kvpool/proto/prefix_key_vectors.json"}) {
    CAPTURE(file);
    CHECK(std::filesystem::file_size(prefix + "/" + file) > 0);
  }
  // The protos need none but those that come with protoc.
  const std::string protos = prefix + "/share/kvpool/proto";
  for (const std::string proto : {"admin", "block", "inspect", "layout"}) {
    Run({KVPOOL_PROTOC, "-I", protos, "--descriptor_set_out=" + directory.File("set"),
         protos + "/kvpool/v1/" + proto + ".proto"});
  }
  size_t named_count = 0;
  for (const std::filesystem::path& header : FilesBelow(prefix + "/include", {".h"})) {
    std::stringstream text;
    text << std::ifstream(header).rdbuf();
    for (const std::string& name : NamedFiles(text.str())) {
      CAPTURE(header, name);
      CHECK(IsInstalled(prefix, name));
      ++named_count;
    }
  }
  CHECK(named_count > 0);
}

TEST_CASE("A project elsewhere builds with the installed package, and so does README's worker") {
  const std::string cmake = KVPOOL_CMAKE;
  const test::TempDir directory;
  const std::string prefix = directory.File("prefix");
  const std::string build = directory.File("build");
  const std::string readme_worker = directory.File("worker.cc");
  std::ofstream(readme_worker) << ReadmeWorker();
  Run({cmake, "--install", KVPOOL_BUILD_DIR, "--prefix", prefix, "--component", "client"});
  Run({cmake, "-S", KVPOOL_CONSUMER_DIR, "-B", build, "-G", "Ninja",
       "-DCMAKE_PREFIX_PATH=" + prefix, "-DKVPOOL_README_WORKER=" + readme_worker,
       std::string("-DCMAKE_CXX_COMPILER=") + KVPOOL_COMPILER,
       "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Wconversion -Werror",
       std::string("-DCMAKE_CXX_COMPILER_LAUNCHER=") + KVPOOL_LAUNCHER});
  Run({cmake, "--build", build});

  // Nothing installed points back to where it was built.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(prefix)) {
    if (entry.path().extension() != ".cmake" && entry.path().extension() != ".h") continue;
    CAPTURE(entry.path());
    Run({"/bin/sh", "-c", "! grep -q '" KVPOOL_SOURCE_DIR "' " + entry.path().string()});
  }

  const test::FakeDaemon daemon(directory.path().string());
  test::ChildProcess consumer({.arguments = {build + "/consumer", daemon.socket()},
                               .environment = {},
                               .stderr_path = "",
                               .uid = std::nullopt});
  CHECK(consumer.ReadAll() == "POOL_FULL\n");
  CHECK(consumer.Wait() == 0);
  CheckReadmeWorker(build + "/readme");
}

}  // namespace
}  // namespace kvpool::client
