#include <string>

#include "kvpool/v1/admin.pb.h"
#include "tests/support/catch.h"
#include "tests/unit/cli/run_cli.h"

namespace kvpool::cli {
namespace {

using test::CliFixture;
using test::CliResult;

TEST_CASE("reset forgets a pool's prefixes, or a tenant's, and says how many") {
  CliFixture fixture;
  v1::ResetPrefixesResponse response;
  response.set_forgotten(12);
  fixture.daemon.Answer("ResetPrefixes", response);
  const CliResult result = fixture.Run({"reset", "llama"});
  CHECK(result.code == ExitCode::kOk);
  CHECK(result.out == "forgot 12 published blocks of pool llama\n");
  CHECK(fixture.daemon.LastRequest("ResetPrefixes") == "pool: \"llama\"");
  CHECK(fixture.Run({"reset", "llama", "acme"}).out ==
        "forgot 12 published blocks of tenant acme of pool llama\n");
  CHECK(fixture.Run({"reset", "llama", "acme", "--json"}).out == "{\n \"forgotten\": 12\n}\n");
  CHECK(fixture.daemon.LastRequest("ResetPrefixes") == "pool: \"llama\" tenant: \"acme\"");
}

TEST_CASE("reset says so where nothing was findable, of the pool or of a tenant") {
  CliFixture fixture;
  fixture.daemon.Answer("ResetPrefixes", v1::ResetPrefixesResponse());
  const CliResult all = fixture.Run({"reset", "llama"});
  CHECK(all.code == ExitCode::kOk);
  CHECK(all.out == "nothing of pool llama was findable\n");
  CHECK(fixture.Run({"reset", "llama", "acm\n"}).out ==
        "nothing of tenant acm\\x0a of pool llama was findable\n");
  CHECK(fixture.Run({"reset", "llama", "acme", "--json"}).out == "{\n \"forgotten\": 0\n}\n");
}

TEST_CASE("reset takes no empty tenant for all of them") {
  CliFixture fixture;
  CHECK(fixture.Run({"reset", "llama", ""}).code == ExitCode::kUsage);
  CHECK(fixture.Run({"reset"}).code == ExitCode::kUsage);
}

}  // namespace
}  // namespace kvpool::cli
