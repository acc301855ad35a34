#include "core/error.h"

#include <set>
#include <string>

#include "tests/support/catch.h"

namespace kvpool {
namespace {

TEST_CASE("MakeError keeps code, message and detail") {
  const ErrorDetail detail{
      .reason = Reason::kPoolFull, .index = 7, .block_id = 4'000'000'000U, .available = 12};
  const absl::Status status =
      MakeError(absl::StatusCode::kResourceExhausted, detail, "no room for 20 blocks");
  CHECK(absl::IsResourceExhausted(status));
  CHECK(status.message() == "no room for 20 blocks");
  CHECK(GetErrorDetail(status) == detail);

  const absl::Status copy = status;
  CHECK(GetErrorDetail(copy) == detail);
}

TEST_CASE("A status that MakeError did not make has an empty detail") {
  CHECK(GetErrorDetail(absl::OkStatus()) == ErrorDetail{});
  CHECK(GetErrorDetail(absl::NotFoundError("no such pool")) == ErrorDetail{});
}

TEST_CASE("A status that is printed shows its detail as text, with the reason's name") {
  const absl::Status status = MakeError(
      absl::StatusCode::kResourceExhausted,
      {.reason = Reason::kPoolFull, .index = 1, .block_id = 2, .available = 3}, "no room");
  CHECK(status.ToString() ==
        "RESOURCE_EXHAUSTED: no room "
        "[kvpool/error_detail='POOL_FULL reason=4 index=1 block_id=2 available=3']");
}

TEST_CASE("A detail whose reason is not known here is kept") {
  const ErrorDetail detail{.reason = static_cast<Reason>(UINT32_MAX), .available = UINT32_MAX};
  CHECK(GetErrorDetail(MakeError(absl::StatusCode::kAborted, detail, "")) == detail);
}

TEST_CASE("A payload of another form under the detail's name is no detail") {
  absl::Status status =
      MakeError(absl::StatusCode::kAborted, {.reason = Reason::kBusy}, "being written");
  std::string url;
  status.ForEachPayload(
      [&](absl::string_view name, const absl::Cord&) { url = std::string(name); });
  REQUIRE_FALSE(url.empty());
  for (const char* text : {"", "short", "BUSY reason=20 index=0 block_id=0",
                           "BUSY reason=20 index=x block_id=0 available=0",
                           "BUSY reason=20 index=0 block_id=0 available=4294967296"}) {
    CAPTURE(text);
    status.SetPayload(url, absl::Cord(text));
    CHECK(GetErrorDetail(status) == ErrorDetail{});
  }
}

TEST_CASE("Every reason has a name of its own, as the API spells it") {
  std::set<std::string> names;
  for (uint32_t i = 0; i <= static_cast<uint32_t>(Reason::kDeviceFailed); ++i) {
    names.insert(std::string(ReasonName(static_cast<Reason>(i))));
  }
  CHECK(names.size() == 24);
  CHECK(names.count("UNKNOWN") == 0);
  CHECK(ReasonName(Reason::kUnspecified) == "UNSPECIFIED");
  CHECK(ReasonName(Reason::kSessionUnknown) == "SESSION_UNKNOWN");
  CHECK(ReasonName(Reason::kNotHeld) == "NOT_HELD");
  CHECK(ReasonName(Reason::kInUse) == "IN_USE");
  CHECK(ReasonName(Reason::kLimit) == "LIMIT");
  CHECK(ReasonName(Reason::kDeviceFailed) == "DEVICE_FAILED");
}

TEST_CASE("A reason that is not known here is UNKNOWN") {
  CHECK(ReasonName(static_cast<Reason>(24)) == "UNKNOWN");
  CHECK(ReasonName(static_cast<Reason>(UINT32_MAX)) == "UNKNOWN");
}

}  // namespace
}  // namespace kvpool
