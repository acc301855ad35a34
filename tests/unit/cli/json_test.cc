#include "client/cli/json.h"

#include <fstream>
#include <string>

#include "client/cli/exit_code.h"
#include "kvpool/v1/inspect.pb.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

namespace kvpool::cli {
namespace {

TEST_CASE("A spec is read from JSON, by either spelling of its fields") {
  const auto spec = ReadSpec(R"({"name": "p", "num_layers": 2, "headDim": 64,
                                 "layers": [{"first": 1, "last": 1, "dtype": "bf16"}],
                                 "memory_bytes": "1000000", "v_mode": "V_MODE_NONE"})");
  REQUIRE(spec.ok());
  CHECK(spec->name() == "p");
  CHECK(spec->num_layers() == 2);
  CHECK(spec->head_dim() == 64);
  CHECK(spec->layers(0).dtype() == "bf16");
  CHECK(spec->memory_bytes() == 1'000'000);
  CHECK(spec->v_mode() == v1::V_MODE_NONE);
}

TEST_CASE("A spec is read from a file") {
  const test::TempDir directory;
  const std::string path = directory.File("spec.json");
  std::ofstream(path) << R"({"name": "from-file"})";
  const auto spec = ReadSpec("@" + path);
  REQUIRE(spec.ok());
  CHECK(spec->name() == "from-file");
}

TEST_CASE("A spec that cannot be read is a usage error that says why") {
  const auto refused = [](const std::string& text, const std::string& part) {
    CAPTURE(text.size());
    const auto spec = ReadSpec(text);
    REQUIRE_FALSE(spec.ok());
    CHECK(ExitCodeFor(spec.status()) == ExitCode::kUsage);
    const std::string message(spec.status().message());
    CAPTURE(message);
    CHECK(message.find(part) != std::string::npos);
  };
  refused("", "no JSON");
  refused("{", "no JSON");
  refused("[]", "no JSON");
  refused(R"({"no_such_field": 1})", "no_such_field");
  refused(R"({"num_layers": -1})", "num_layers");
  refused(R"({"num_layers": "x"})", "num_layers");
  refused(R"({"num_blocks": 1, "memory_bytes": 2})",
          "num_blocks: 1: memory_bytes is given too; give one of num_blocks, memory_bytes, ");
  refused(R"({"v_mode": "none"})", "not one of V_MODE_SEPARATE, V_MODE_ALIASES_K, V_MODE_NONE");
  refused(R"({"memory_bytes": "8GB"})", "such as 8589934592 for 8 GiB");
  refused(R"({"total_bytes": 8})", "there is no such field (value 8)");
  const test::TempDir directory;
  refused("@" + directory.File("absent"), "cannot read");
  refused("@" + directory.path().string(), "cannot read");
  std::ofstream(directory.File("empty")) << "";
  refused("@" + directory.File("empty"), "no JSON");
  std::ofstream(directory.File("long")) << std::string((1 << 20) + 1, ' ');
  refused("@" + directory.File("long"), "longer than 1048576 bytes");
  std::ofstream(directory.File("full")) << std::string((1 << 20) - 2, ' ') << "{}";
  CHECK(ReadSpec("@" + directory.File("full")).ok());
}

TEST_CASE("What is wrong with a spec is told on one line, with the place") {
  const auto message = [](const std::string& text) {
    return std::string(ReadSpec(text).status().message());
  };
  CHECK(message("{\"num_layers\": 2,\n \"num_blocks\" 3}") ==
        "the spec is no JSON of a PoolSpec: line 2, column 15: Missing ':' after object member "
        "name");
  CHECK(message("") ==
        "the spec is no JSON of a PoolSpec: line 1, column 1: Syntax error: value, object or "
        "array expected");
  CHECK(message("{\"layers\": [{\"first\": 0,\n\"dtype\": 1}]}") ==
        "the spec is no JSON of a PoolSpec: line 2, column 10: layers[0].dtype: 1 is not a string");
  for (const char* text : {"{\n\n", "{\"a\"\n:\n}", "[\n1\n]", "\n\n",
                           "{\"num_layers\": \"\x1b[2J\n\"}", "{\"\x1b[2J\n\": 1}"}) {
    CAPTURE(text);
    CHECK_FALSE(message(text).empty());
    CHECK(message(text).find_first_of("\n\x1b") == std::string::npos);
  }
}

TEST_CASE("A spec that looks like a file's name is told how a file is read") {
  const std::string hint = "; a file is read by --spec=@FILE";
  for (const char* text : {"spec.json", "/etc/kvpool/llama.json", " llama"}) {
    CAPTURE(text);
    const std::string message(ReadSpec(text).status().message());
    CHECK(message.find(hint) != std::string::npos);
  }
  const test::TempDir directory;
  const std::string path = directory.File("spec.json");
  std::ofstream(path) << "no JSON";
  for (const std::string& text : {std::string(), std::string("{"), "@" + path}) {
    CAPTURE(text);
    const std::string message(ReadSpec(text).status().message());
    CHECK(message.find(hint) == std::string::npos);
  }
}

TEST_CASE("JSON has every field, zeros too, and ends its last line") {
  v1::PoolStatus pool;
  pool.set_held_blocks(3);
  const std::string json = ToJson(pool);
  CHECK(json.find("\"heldBlocks\": 3") != std::string::npos);
  CHECK(json.find("\"freeBlocks\": 0") != std::string::npos);
  CHECK(json.substr(json.size() - 2) == "}\n");
}

}  // namespace
}  // namespace kvpool::cli
