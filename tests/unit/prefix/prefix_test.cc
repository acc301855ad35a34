#include "core/ledger/prefix/prefix.h"

#include <array>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"

#include "tests/support/catch.h"

namespace kvpool {
namespace {

bool IsInvalid(const Prefix& prefix, absl::string_view message) {
  const absl::Status status = CheckPrefix(prefix);
  INFO(status.ToString());
  CHECK(absl::StrContains(status.message(), message));
  return absl::IsInvalidArgument(status);
}

constexpr std::array<uint32_t, 8> kTokens = {1, 2, 3, 4, 5, 6, 7, 8};

TEST_CASE("A prefix is tokens, or block hashes, or neither, but not both") {
  const std::string hash(32, 'h');
  const std::vector<absl::string_view> hashes = {hash};
  CHECK(CheckPrefix({}).ok());
  CHECK(CheckPrefix({.tokens = kTokens}).ok());
  CHECK(CheckPrefix({.block_hashes = hashes}).ok());
  CHECK(IsInvalid({.tokens = kTokens, .block_hashes = hashes}, "both"));
}

TEST_CASE("A caller's block hash has 16 to 32 bytes") {
  for (const size_t size : {16U, 20U, 32U}) {
    const std::string hash(size, 'h');
    CHECK(CheckPrefix({.block_hashes = std::vector<absl::string_view>{hash}}).ok());
  }
  const std::string good(16, 'h');
  for (const size_t size : {0U, 15U, 33U}) {
    const std::string hash(size, 'h');
    CHECK(IsInvalid({.block_hashes = std::vector<absl::string_view>{good, hash}},
                    "block_hashes[1] has " + std::to_string(size) + " bytes, not 16 to 32"));
  }
}

TEST_CASE("A parent key has 32 bytes, or none") {
  const std::string key(40, 'k');
  const absl::string_view view = key;
  CHECK(CheckPrefix({.parent_key = view.substr(0, 32)}).ok());
  for (const size_t size : {1U, 31U, 33U}) {
    CHECK(IsInvalid({.parent_key = view.substr(0, size)},
                    "parent_key has " + std::to_string(size) + " bytes, not 32"));
  }
}

TEST_CASE("An adapter and a salt have at most 1,024 bytes each") {
  const std::string text(1'025, 'a');
  const absl::string_view view = text;
  CHECK(CheckPrefix({.space = {.adapter = view.substr(1), .salt = view.substr(1)}}).ok());
  CHECK(IsInvalid({.space = {.adapter = view}}, "adapter has 1025 bytes"));
  CHECK(IsInvalid({.space = {.salt = view}}, "salt has 1025 bytes"));
}

absl::Status CheckWith(std::vector<PrefixExtra> extras) {
  return CheckPrefix({.tokens = kTokens, .extras = extras});
}

bool AreInvalid(std::vector<PrefixExtra> extras, absl::string_view message) {
  return IsInvalid({.tokens = kTokens, .extras = extras}, message);
}

TEST_CASE("Extras lie in order inside the tokens and do not overlap") {
  CHECK(CheckWith({{0, 8, "i"}}).ok());
  CHECK(CheckWith({{0, 3, "i"}, {3, 1, "i"}, {7, 1, "j"}}).ok());
  CHECK(AreInvalid({{0, 9, "i"}}, "extras[0] ends at token 9 of 8"));
  CHECK(AreInvalid({{8, 1, "i"}}, "extras[0] ends at token 9 of 8"));
  CHECK(AreInvalid({{UINT32_MAX, UINT32_MAX, "i"}}, "ends at token 8589934590"));
  CHECK(AreInvalid({{0, 3, "i"}, {2, 3, "j"}}, "extras[1] begins at token 2, before the end"));
  CHECK(AreInvalid({{4, 2, "i"}, {0, 2, "j"}}, "extras[1] begins at token 0, before the end"));
}

TEST_CASE("An extra covers a token at least") {
  CHECK(AreInvalid({{3, 0, "i"}}, "extras[0] covers no token"));
}

TEST_CASE("An extra's hash has 1 to 64 bytes") {
  const std::string hash(65, 'h');
  CHECK(CheckWith({{0, 1, absl::string_view(hash).substr(1)}}).ok());
  CHECK(AreInvalid({{0, 1, ""}}, "extras[0].hash has 0 bytes"));
  CHECK(AreInvalid({{0, 1, hash}}, "extras[0].hash has 65 bytes"));
}

TEST_CASE("Extras do not go with block hashes") {
  const std::string hash(32, 'h');
  const std::vector<absl::string_view> hashes = {hash};
  const std::vector<PrefixExtra> extras = {{0, 1, "i"}};
  CHECK(IsInvalid({.block_hashes = hashes, .extras = extras}, "extras are given"));
}

}  // namespace
}  // namespace kvpool
