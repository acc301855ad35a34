#include "server/rpc/admission.h"

#include <string>

#include "tests/support/catch.h"

namespace kvpool::server {
namespace {

// OK or PERMISSION_DENIED: what a role is answered.
absl::StatusCode Verdict(v1::Role role, Access access) { return CheckRole(role, access).code(); }

constexpr absl::StatusCode kAllowed = absl::StatusCode::kOk;
constexpr absl::StatusCode kDenied = absl::StatusCode::kPermissionDenied;

TEST_CASE("A worker uses blocks and inspects") {
  CHECK(Verdict(v1::ROLE_WORKER, Access::kBlocks) == kAllowed);
  CHECK(Verdict(v1::ROLE_WORKER, Access::kInspect) == kAllowed);
  CHECK(Verdict(v1::ROLE_WORKER, Access::kContent) == kDenied);
  CHECK(Verdict(v1::ROLE_WORKER, Access::kAdmin) == kDenied);
}

TEST_CASE("An inspector inspects, without content") {
  CHECK(Verdict(v1::ROLE_INSPECTOR, Access::kBlocks) == kDenied);
  CHECK(Verdict(v1::ROLE_INSPECTOR, Access::kInspect) == kAllowed);
  CHECK(Verdict(v1::ROLE_INSPECTOR, Access::kContent) == kDenied);
  CHECK(Verdict(v1::ROLE_INSPECTOR, Access::kAdmin) == kDenied);
}

TEST_CASE("An operator does everything") {
  for (const Access access :
       {Access::kBlocks, Access::kInspect, Access::kContent, Access::kAdmin}) {
    CHECK(Verdict(v1::ROLE_OPERATOR, access) == kAllowed);
  }
}

TEST_CASE("A role that is not set, or not known, does nothing") {
  for (const v1::Role role : {v1::ROLE_UNSPECIFIED, static_cast<v1::Role>(17)}) {
    for (const Access access :
         {Access::kBlocks, Access::kInspect, Access::kContent, Access::kAdmin}) {
      CHECK(Verdict(role, access) == kDenied);
    }
  }
}

TEST_CASE("A refusal names the role") {
  const std::string message(CheckRole(v1::ROLE_INSPECTOR, Access::kContent).message());
  CHECK(message.find("inspector") != std::string::npos);
  CHECK(message.find("checksums") != std::string::npos);
}

}  // namespace
}  // namespace kvpool::server
