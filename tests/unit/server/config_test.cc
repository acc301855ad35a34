#include "server/config.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

namespace kvpool::server {
namespace {

// A config with one pool, whose `field` is `value`.
std::string WithPoolField(const std::string& field, const std::string& value) {
  std::string json = R"({"pools": [{"name": "chat")";
  const std::pair<std::string, std::string> fields[] = {
      {"block_size", "16"}, {"num_layers", "2"},  {"num_kv_heads", "2"},
      {"head_dim", "64"},   {"dtype", "\"fp8\""}, {"num_blocks", "10"}};
  for (const auto& [name, usual] : fields) {
    if (name != field) absl::StrAppend(&json, ", \"", name, "\": ", usual);
  }
  return absl::StrCat(json, ", \"", field, "\": ", value, "}]}");
}

// A config with one listener, with these fields beside its address and role.
std::string WithListener(const std::string& address, const std::string& more) {
  return absl::StrCat(R"({"listeners": [{"address": ")", address, R"(", "role": "ROLE_WORKER")",
                      more, "}]}");
}

bool Mentions(const absl::Status& status, const std::string& text) {
  return absl::StrContains(status.message(), text);
}

TEST_CASE("A config is read into pools and listeners") {
  const auto config = ParseConfig("c.json", R"({
    "pools": [{"name": "chat", "num_layers": 2, "num_kv_heads": 2, "head_dim": 64,
               "memory_bytes": "1048576", "tenants": ["a"]}],
    "listeners": [{"address": "unix:/run/x/a.sock", "role": "ROLE_WORKER", "tenant": "a",
                   "mode": "0666", "group": "7"},
                  {"address": "unix:///run/x/../y/b.sock", "role": "ROLE_OPERATOR"},
                  {"address": "unix:/run/x/c.sock", "role": "ROLE_INSPECTOR"}]})");
  REQUIRE(config.ok());
  REQUIRE(config->pools.size() == 1);
  CHECK(config->pools[0].name == "chat");
  CHECK(config->pools[0].memory_bytes == 1048576U);
  REQUIRE(config->listeners.size() == 3);
  CHECK(config->listeners[0].path == "/run/x/a.sock");
  CHECK(config->listeners[0].tenant == "a");
  CHECK(config->listeners[0].mode == 0666);
  CHECK(config->listeners[0].group == 7U);
  CHECK(config->listeners[0].has_region_socket());
  CHECK(config->listeners[1].path == "/run/y/b.sock");
  CHECK(config->listeners[1].mode == 0600);
  CHECK_FALSE(config->listeners[1].group.has_value());
  CHECK(config->listeners[2].mode == 0660);
  CHECK_FALSE(config->listeners[2].has_region_socket());
}

TEST_CASE("A number that a field cannot have is refused with the field, never silently replaced") {
  for (const char* field : {"num_blocks", "block_size", "num_layers", "num_kv_heads", "head_dim",
                            "high_precision_layers", "max_blocks_per_tenant"}) {
    for (const char* value :
         {"-1", "1.5", "\"16k\"", "\" 16\"", "\"16\"", "\"0x10\"", "0x10", "4294967296",
          "9223372036854775808", "\"\"", "null", "true", "[]", "{}", "1e400", "NaN"}) {
      CAPTURE(field, value);
      const auto config = ParseConfig("c.json", WithPoolField(field, value));
      REQUIRE(absl::IsInvalidArgument(config.status()));
      CHECK(absl::StartsWith(config.status().message(), "c.json: "));
      // What is no JSON at all has a place, but no field yet.
      const bool is_json = value != std::string("0x10") && value != std::string("NaN") &&
                           value != std::string("1e400");
      CHECK(Mentions(config.status(), is_json ? absl::StrCat("pools[0].", field) : "line 1"));
    }
  }
}

TEST_CASE("A zero or a size too large where there must be some is refused with the field") {
  for (const char* field : {"num_blocks", "block_size", "num_layers", "num_kv_heads", "head_dim"}) {
    CAPTURE(field);
    const auto config = ParseConfig("c.json", WithPoolField(field, "0"));
    REQUIRE(absl::IsInvalidArgument(config.status()));
    CHECK(Mentions(config.status(), "pools[0]"));
    CHECK(Mentions(config.status(), field));
  }
  CHECK(absl::IsInvalidArgument(
      ParseConfig("c.json", WithPoolField("num_blocks", "2147483648")).status()));
}

TEST_CASE("A 64-bit number may be a string of digits and nothing else") {
  const auto pool = [](const std::string& value) {
    return absl::StrCat(
        R"({"pools": [{"name": "p", "num_layers": 1, "num_kv_heads": 1, "head_dim": 64,)",
        R"("memory_bytes": )", value, "}]}");
  };
  CHECK(ParseConfig("c", pool("1048576")).ok());
  CHECK(ParseConfig("c", pool("\"1048576\"")).ok());
  for (const char* value : {"\"\"", "\" 1048576\"", "\"1048576 \"", "\"0x100000\"", "\"1e6\"",
                            "\"-1\"", "\"18446744073709551616\"", "18446744073709551616"}) {
    CAPTURE(value);
    const auto config = ParseConfig("c", pool(value));
    REQUIRE(absl::IsInvalidArgument(config.status()));
    CHECK(Mentions(config.status(), "pools[0].memory_bytes"));
  }
}

TEST_CASE("What is not JSON is refused with line and column") {
  for (const char* json : {"", "{", "{\"pools\": [],}", "// c\n{}", "{\"pools\": []} x",
                           "{'pools': []}", "{\"pools\": [], \"pools\": []}"}) {
    CAPTURE(json);
    const auto config = ParseConfig("c.json", json);
    REQUIRE(absl::IsInvalidArgument(config.status()));
    CHECK(Mentions(config.status(), "c.json: line "));
    CHECK(Mentions(config.status(), "column "));
  }
}

TEST_CASE("JSON that is nested too deeply is refused, not read") {
  const std::string deep(100'000, '[');
  CHECK(absl::IsInvalidArgument(ParseConfig("c.json", "{\"pools\": " + deep).status()));
}

TEST_CASE("An unknown field is refused with path, line and column") {
  const auto config =
      ParseConfig("c.json", "{\"pools\": [\n  {\"name\": \"p\",\n   \"blocks\": 7}\n]}");
  REQUIRE(absl::IsInvalidArgument(config.status()));
  CHECK(Mentions(config.status(), "c.json: line 3, column 14: pools[0].blocks: "));
  CHECK(absl::IsInvalidArgument(ParseConfig("c.json", "{\"pool\": []}").status()));
  CHECK(absl::IsInvalidArgument(ParseConfig("c.json", "[]").status()));
}

TEST_CASE("A field given under both its names is refused") {
  const auto config =
      ParseConfig("c.json", R"({"pools": [{"name": "p", "num_blocks": 1, "numBlocks": 2}]})");
  REQUIRE(absl::IsInvalidArgument(config.status()));
  CHECK(Mentions(config.status(), "given twice"));
}

TEST_CASE("Two sizes of one pool are refused") {
  const auto config = ParseConfig("c.json", WithPoolField("memory_bytes", "1000000"));
  REQUIRE(absl::IsInvalidArgument(config.status()));
  CHECK(Mentions(config.status(), "pools[0].num_blocks: 10: memory_bytes is given too"));
}

TEST_CASE("An enum goes by its name alone") {
  for (const char* value : {"\"BLOCKMAJOR\"", "1", "\"\"", "null"}) {
    CAPTURE(value);
    const auto config = ParseConfig("c.json", WithPoolField("memory_order", value));
    REQUIRE(absl::IsInvalidArgument(config.status()));
    CHECK(Mentions(config.status(), "pools[0].memory_order"));
  }
  CHECK(ParseConfig("c", WithPoolField("memory_order", "\"MEMORY_ORDER_BLOCK_MAJOR\"")).ok());
}

TEST_CASE("A pool's name that is wrong, or another's too, is refused") {
  for (const char* name : {"\"\"", "\"../x\"", "\"/a/b\"", "\"A\"", "\"a b\"", "\"a\\nb\""}) {
    CAPTURE(name);
    const auto config = ParseConfig(
        "c.json", absl::StrCat(R"({"pools": [{"name": )", name,
                               R"(, "num_layers": 1, "num_kv_heads": 1, "head_dim": 64,)",
                               R"("num_blocks": 1}]})"));
    REQUIRE(absl::IsInvalidArgument(config.status()));
    CHECK(Mentions(config.status(), "name"));
    CHECK_FALSE(Mentions(config.status(), "\n"));
  }
  const std::string pool =
      R"({"name": "p", "num_layers": 1, "num_kv_heads": 1, "head_dim": 64, "num_blocks": 1})";
  const auto config = ParseConfig("c", absl::StrCat("{\"pools\": [", pool, ", ", pool, "]}"));
  REQUIRE(absl::IsInvalidArgument(config.status()));
  CHECK(Mentions(config.status(), "pools[1].name: 'p'"));
}

TEST_CASE("A socket's path has at most 104 bytes") {
  const std::string path = "/tmp/" + std::string(99, 'a');
  REQUIRE(path.size() == 104);
  CHECK(ParseConfig("c", WithListener("unix:" + path, "")).ok());
  const auto config = ParseConfig("c", WithListener("unix:" + path + "a", ""));
  REQUIRE(absl::IsInvalidArgument(config.status()));
  CHECK(Mentions(config.status(), path + "a"));
  CHECK(Mentions(config.status(), "104"));
}

TEST_CASE("An address that is no unix socket's is refused with the address") {
  for (const char* address : {"", "unix:", "unix:relative.sock", "unix:/tmp/", "0.0.0.0:50051",
                              "tcp://[::]:1", "unix-abstract:x", "/tmp/x.sock"}) {
    CAPTURE(address);
    const auto config = ParseConfig("c", WithListener(address, ""));
    REQUIRE(absl::IsInvalidArgument(config.status()));
    CHECK(Mentions(config.status(), absl::StrCat("listeners[0].address: '", address, "'")));
  }
}

TEST_CASE("A listener's mode is octal and its group known") {
  for (const char* mode : {"\"8\"", "\"abc\"", "\"66\"", "\"06600\"", "\"0x1ff\"", "\"4755\"",
                           "\" 660\"", "\"-660\"", "660"}) {
    CAPTURE(mode);
    const auto config =
        ParseConfig("c", WithListener("unix:/a/b", absl::StrCat(", \"mode\": ", mode)));
    REQUIRE(absl::IsInvalidArgument(config.status()));
    CHECK(Mentions(config.status(), "listeners[0].mode: "));
  }
  for (const char* group : {"no-such-group-here", "4294967295", "99999999999", "-1"}) {
    CAPTURE(group);
    const auto config =
        ParseConfig("c", WithListener("unix:/a/b", absl::StrCat(", \"group\": \"", group, "\"")));
    REQUIRE(absl::IsInvalidArgument(config.status()));
    CHECK(Mentions(config.status(), absl::StrCat("listeners[0].group: ")));
    CHECK(Mentions(config.status(), group));
  }
  const auto config = ParseConfig("c", WithListener("unix:/a/b", R"(, "group": "root")"));
  REQUIRE(config.ok());
  CHECK(config->listeners[0].group == 0U);
}

TEST_CASE("A listener needs a role, and a tenant's name is short and printable") {
  const auto without_role = ParseConfig("c", R"({"listeners": [{"address": "unix:/a/b"}]})");
  REQUIRE(absl::IsInvalidArgument(without_role.status()));
  CHECK(Mentions(without_role.status(), "listeners[0].role"));

  CHECK(ParseConfig("c", WithListener("unix:/a/b",
                                      absl::StrCat(R"(, "tenant": ")", std::string(63, 't'), "\"")))
            .ok());
  for (const std::string& tenant : {std::string(64, 't'), std::string("a\\nb"), std::string("é")}) {
    CAPTURE(tenant);
    const auto config =
        ParseConfig("c", WithListener("unix:/a/b", absl::StrCat(R"(, "tenant": ")", tenant, "\"")));
    REQUIRE(absl::IsInvalidArgument(config.status()));
    CHECK(Mentions(config.status(), "listeners[0].tenant"));
  }
}

TEST_CASE("Pools of workers' own are refused while there are none") {
  const auto bytes = ParseConfig("c", WithListener("unix:/a/b", R"(, "pool_bytes": 5)"));
  REQUIRE(absl::IsInvalidArgument(bytes.status()));
  CHECK(Mentions(bytes.status(), "listeners[0].pool_bytes: 5"));
  const auto devices = ParseConfig("c", WithListener("unix:/a/b", R"(, "pool_devices": ["host"])"));
  REQUIRE(absl::IsInvalidArgument(devices.status()));
  CHECK(Mentions(devices.status(), "listeners[0].pool_devices[0]: 'host'"));
}

TEST_CASE("Two listeners that need one path are refused") {
  for (const char* other :
       {"unix:/a/b", "unix:/a/./b", "unix:///a//b", "unix:/a/b.fd", "unix:/a/b.lock"}) {
    CAPTURE(other);
    const auto config = ParseConfig(
        "c", absl::StrCat(R"({"listeners": [{"address": "unix:/a/b", "role": "ROLE_WORKER"},)",
                          R"({"address": ")", other, R"(", "role": "ROLE_OPERATOR"}]})"));
    REQUIRE(absl::IsInvalidArgument(config.status()));
    CHECK(Mentions(config.status(), "listeners[1].address"));
    CHECK(Mentions(config.status(), "listeners[0]"));
  }
}

TEST_CASE("A file that is not there, or is too long, is refused with its path") {
  const test::TempDir directory;
  const std::string missing = directory.File("none.json");
  const auto none = LoadConfig(missing);
  CHECK(absl::IsNotFound(none.status()));
  CHECK(Mentions(none.status(), missing));

  const std::string path = directory.File("c.json");
  std::ofstream(path) << "{}" << std::string(2 << 20, ' ');
  const auto large = LoadConfig(path);
  CHECK(absl::IsInvalidArgument(large.status()));
  CHECK(Mentions(large.status(), path));

  std::ofstream(path) << R"({"pools": []})";
  const auto config = LoadConfig(path);
  REQUIRE(config.ok());
  CHECK(config->listeners.size() == 2);
}

TEST_CASE("A config that is no regular file is refused for what it is, and never waited for") {
  const test::TempDir directory;
  const std::string fifo = directory.File("fifo");
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  const std::string link = directory.File("link");
  std::filesystem::create_symlink(fifo, link);
  const std::string socket = directory.File("socket");
  REQUIRE(mknod(socket.c_str(), S_IFSOCK | 0600, 0) == 0);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {fifo, "is a FIFO or a pipe"}, {link, "is a FIFO or a pipe"},
      {socket, "is a socket"},       {directory.File(""), "is a directory"},
      {"/dev/zero", "is a device"},  {"/dev/null", "is a device"},
  };
  for (const auto& [path, kind] : cases) {
    const auto config = LoadConfig(path);
    CHECK(absl::IsInvalidArgument(config.status()));
    CHECK(Mentions(config.status(), path));
    CHECK(Mentions(config.status(), kind));
  }
}

TEST_CASE("Without a config the sockets lie where their user alone can make them") {
  const Config root = DefaultConfig(0, "/run/user/0");
  REQUIRE(root.listeners.size() == 2);
  CHECK(root.pools.empty());
  CHECK(root.listeners[0].path == "/run/kvpool/worker/kvpool.sock");
  CHECK(root.listeners[0].role == v1::ROLE_WORKER);
  CHECK(root.listeners[0].mode == 0660);
  CHECK(root.listeners[1].path == "/run/kvpool/operator/kvpool.sock");
  CHECK(root.listeners[1].role == v1::ROLE_OPERATOR);
  CHECK(root.listeners[1].mode == 0600);
  CHECK(root.private_directory.empty());

  const Config user = DefaultConfig(1000, "/run/user/1000");
  CHECK(user.listeners[0].path == "/run/user/1000/kvpool/worker/kvpool.sock");
  CHECK(user.private_directory.empty());

  // Anybody can make names in /tmp.
  const Config bare = DefaultConfig(1000, nullptr);
  CHECK(bare.listeners[1].path == "/tmp/kvpool-1000/operator/kvpool.sock");
  CHECK(bare.private_directory == "/tmp/kvpool-1000");
}

}  // namespace
}  // namespace kvpool::server
