// Keys that were made once, by the Python of docs/prefix-keys.md, and must never change.

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "core/hex.h"
#include "core/ledger/prefix/prefix_hasher.h"
#include "tests/support/catch.h"

namespace kvpool {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

std::vector<Value> List(const Struct& object, const std::string& name) {
  const auto found = object.fields().find(name);
  if (found == object.fields().end()) return {};
  const auto& values = found->second.list_value().values();
  return {values.begin(), values.end()};
}

std::string Text(const Struct& object, const std::string& name) {
  const auto found = object.fields().find(name);
  return found == object.fields().end() ? "" : found->second.string_value();
}

std::string Bytes(const std::string& hex) { return BytesFromHex(hex).value(); }

uint32_t Number(const Struct& object, const std::string& name) {
  return static_cast<uint32_t>(object.fields().at(name).number_value());
}

Struct ReadVectors() {
  std::ifstream file(KVPOOL_SOURCE_DIR "/proto/prefix_key_vectors.json");
  REQUIRE(file.is_open());
  std::ostringstream text;
  text << file.rdbuf();
  Struct document;
  const auto status = google::protobuf::util::JsonStringToMessage(text.str(), &document);
  INFO(status.ToString());
  REQUIRE(status.ok());
  return document;
}

// A case with the bytes that its Prefix borrows.
struct Case {
  explicit Case(const Struct& object)
      : fingerprint(Text(object, "fingerprint")),
        tenant(Text(object, "tenant")),
        model_id(Text(object, "model_id")),
        adapter(Text(object, "adapter")),
        salt(Bytes(Text(object, "salt"))),
        parent_key(Bytes(Text(object, "parent_key"))) {
    for (const Value& token : List(object, "tokens")) {
      tokens.push_back(static_cast<uint32_t>(token.number_value()));
    }
    for (const Value& hash : List(object, "block_hashes")) {
      hash_bytes.push_back(Bytes(hash.string_value()));
    }
    block_hashes.assign(hash_bytes.begin(), hash_bytes.end());
    const std::vector<Value> given = List(object, "extras");
    for (const Value& extra : given) {
      extra_bytes.push_back(Bytes(Text(extra.struct_value(), "hash")));
    }
    for (size_t i = 0; i < given.size(); ++i) {
      extras.push_back({.first_token = Number(given[i].struct_value(), "first_token"),
                        .token_count = Number(given[i].struct_value(), "token_count"),
                        .hash = extra_bytes[i]});
    }
  }

  Prefix prefix() const {
    return {.space = {.fingerprint = fingerprint,
                      .tenant = tenant,
                      .model_id = model_id,
                      .adapter = adapter,
                      .salt = salt},
            .tokens = tokens,
            .block_hashes = block_hashes,
            .parent_key = parent_key,
            .extras = extras};
  }

  std::string fingerprint, tenant, model_id, adapter, salt, parent_key;
  std::vector<uint32_t> tokens;
  std::vector<std::string> hash_bytes, extra_bytes;
  std::vector<absl::string_view> block_hashes;
  std::vector<PrefixExtra> extras;
};

TEST_CASE("PrefixHasher makes the keys of the golden vectors") {
  const std::vector<Value> cases = List(ReadVectors(), "cases");
  REQUIRE(cases.size() >= 42);
  const PrefixHasher hasher;
  for (const Value& value : cases) {
    const Struct& object = value.struct_value();
    CAPTURE(Text(object, "name"));
    const Case vector(object);
    REQUIRE(CheckPrefix(vector.prefix()).ok());
    const PrefixKeys made = hasher.Hash(vector.prefix(), Number(object, "block_size"));
    CHECK(absl::BytesToHexString(made.root.view()) == Text(object, "root"));
    std::vector<std::string> keys;
    for (const PrefixKey& key : made.blocks) keys.push_back(absl::BytesToHexString(key.view()));
    std::vector<std::string> expected;
    for (const Value& key : List(object, "keys")) expected.push_back(key.string_value());
    CHECK(keys == expected);
  }
}

}  // namespace
}  // namespace kvpool
