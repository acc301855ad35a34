#include "client/status_from_grpc.h"

#include "core/error.h"
#include "kvpool/internal/status.pb.h"
#include "kvpool/v1/block.pb.h"
#include "tests/support/catch.h"

namespace kvpool::client {
namespace {

std::string Details(const v1::ErrorDetail& detail) {
  internal::Status rich;
  rich.add_details()->PackFrom(detail);
  return rich.SerializeAsString();
}

TEST_CASE("Every code and message of gRPC comes over") {
  CHECK(StatusFromGrpc(grpc::Status::OK).ok());
  for (int code = 1; code <= 16; ++code) {
    CAPTURE(code);
    const absl::Status status =
        StatusFromGrpc({static_cast<grpc::StatusCode>(code), "what was wrong"});
    CHECK(static_cast<int>(status.code()) == code);
    CHECK(status.message() == "what was wrong");
    CHECK(GetErrorDetail(status) == ErrorDetail{});
  }
}

TEST_CASE("Every reason of the API comes over with what it says") {
  for (int reason = v1::ErrorDetail::Reason_MIN + 1; reason <= v1::ErrorDetail::Reason_MAX;
       ++reason) {
    v1::ErrorDetail detail;
    detail.set_reason(static_cast<v1::ErrorDetail::Reason>(reason));
    detail.set_index(3);
    detail.set_block_id(4);
    detail.set_available(5);
    const absl::Status status =
        StatusFromGrpc({grpc::StatusCode::FAILED_PRECONDITION, "no", Details(detail)});
    CHECK(absl::IsFailedPrecondition(status));
    CHECK(GetErrorDetail(status) ==
          ErrorDetail{
              .reason = static_cast<Reason>(reason), .index = 3, .block_id = 4, .available = 5});
    CHECK("REASON_" + std::string(ReasonName(GetErrorDetail(status).reason)) ==
          v1::ErrorDetail::Reason_Name(detail.reason()));
  }
}

TEST_CASE("Details that are none, or somebody else's, are passed over") {
  internal::Status foreign;
  foreign.add_details()->PackFrom(v1::Notice());
  for (const std::string& details : {std::string("\xff\xff\xff"), foreign.SerializeAsString()}) {
    const absl::Status status = StatusFromGrpc({grpc::StatusCode::UNAVAILABLE, "message", details});
    CHECK(status == absl::UnavailableError("message"));
  }
}

}  // namespace
}  // namespace kvpool::client
