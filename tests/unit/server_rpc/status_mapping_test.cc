#include "server/rpc/status_mapping.h"

#include <string>

#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"
#include "tests/unit/server_rpc/test_server.h"

namespace kvpool::server {
namespace {

TEST_CASE("Each code maps to gRPC's of the same number") {
  CHECK(ToGrpcStatus(absl::OkStatus()).ok());
  CHECK(ToGrpcStatus(absl::OkStatus()).error_details().empty());
  for (int code = 1; code <= 16; ++code) {
    CAPTURE(code);
    const grpc::Status status =
        ToGrpcStatus(absl::Status(static_cast<absl::StatusCode>(code), "why"));
    CHECK(static_cast<int>(status.error_code()) == code);
    CHECK(status.error_message() == "why");
  }
}

TEST_CASE("An error carries its detail") {
  const grpc::Status status = ToGrpcStatus(MakeError(
      absl::StatusCode::kFailedPrecondition,
      {.reason = Reason::kNotHeld, .index = 3, .block_id = 7, .available = 9}, "not held"));
  const v1::ErrorDetail detail = test::DetailOf(status);
  CHECK(detail.reason() == v1::ErrorDetail::REASON_NOT_HELD);
  CHECK(detail.index() == 3);
  CHECK(detail.block_id() == 7);
  CHECK(detail.available() == 9);
}

TEST_CASE("An error without a reason carries an empty detail") {
  const grpc::Status status = ToGrpcStatus(absl::InvalidArgumentError("wrong"));
  CHECK(test::DetailOf(status).reason() == v1::ErrorDetail::REASON_UNSPECIFIED);
}

TEST_CASE("A reason has the same number in core and in the API") {
  CHECK(v1::ErrorDetail::Reason_descriptor()->value_count() == 24);
  for (int i = 0; i < v1::ErrorDetail::Reason_descriptor()->value_count(); ++i) {
    const auto* const value = v1::ErrorDetail::Reason_descriptor()->value(i);
    const absl::string_view name = ReasonName(static_cast<Reason>(value->number()));
    CHECK(value->name() == "REASON_" + std::string(name));
  }
}

TEST_CASE("A message loses control characters and what is not UTF-8") {
  CHECK(SafeMessage("pool 'a' is full") == "pool 'a' is full");
  CHECK(SafeMessage("a\nb\tc\x7F"
                    "d") == "a?b?c?d");
  CHECK(SafeMessage(absl::string_view("\0", 1)) == "?");
  CHECK(SafeMessage("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80") ==
        "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  CHECK(SafeMessage("\xC2\x85") == "?");             // NEL, a control character.
  CHECK(SafeMessage("\xC0\xAF") == "??");            // An overlong '/'.
  CHECK(SafeMessage("\xE0\x80\xAF") == "???");       // Another.
  CHECK(SafeMessage("\xED\xA0\x80") == "???");       // A surrogate.
  CHECK(SafeMessage("\xF4\x90\x80\x80") == "????");  // Beyond U+10FFFF.
  CHECK(SafeMessage("\xF0\x8F\xBF\xBF") == "????");  // Overlong again.
  CHECK(SafeMessage("\xFF"
                    "a\xE2\x82") == "?a??");  // No lead byte; one cut short.
}

TEST_CASE("A long message is cut between characters") {
  const std::string fits(kMaxErrorMessageBytes, 'x');
  CHECK(SafeMessage(fits) == fits);
  CHECK(SafeMessage(fits + "y") == std::string(kMaxErrorMessageBytes - 3, 'x') + "...");

  std::string euros;
  while (euros.size() <= kMaxErrorMessageBytes) euros += "\xE2\x82\xAC";
  const std::string cut = SafeMessage(euros);
  // 340 characters of 3 bytes and the dots are 1023 bytes.
  CHECK(cut == euros.substr(0, size_t{340} * 3) + "...");
}

TEST_CASE("Any bytes become a message that is its own safe form") {
  const uint64_t seed = test::Seed();
  CAPTURE(seed);
  test::Random random(seed);
  for (int round = 0; round < 2'000; ++round) {
    std::string bytes;
    for (uint32_t size = random.Below(1'500); size > 0; --size) {
      bytes.push_back(
          static_cast<char>(random.OneIn(2) ? random.Below(256) : 0xC0 + random.Below(64)));
    }
    const std::string safe = SafeMessage(bytes);
    REQUIRE(safe.size() <= kMaxErrorMessageBytes);
    REQUIRE(SafeMessage(safe) == safe);
    // Protobuf judges for itself whether a string is UTF-8.
    v1::Notice notice;
    notice.set_message(safe);
    REQUIRE(notice.ParseFromString(notice.SerializeAsString()));
  }
}

}  // namespace
}  // namespace kvpool::server
