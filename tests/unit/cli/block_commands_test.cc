#include <string>

#include "kvpool/v1/inspect.pb.h"
#include "tests/support/catch.h"
#include "tests/unit/cli/run_cli.h"

namespace kvpool::cli {
namespace {

using test::CliFixture;
using test::CliResult;

v1::BlockStatus Block(uint32_t id) {
  v1::BlockStatus block;
  block.set_block_id(id);
  block.set_generation(3);
  block.set_state(v1::BlockStatus::STATE_HELD);
  block.set_ref_count(2);
  block.set_sealed(true);
  block.set_tenant("uid-7");
  return block;
}

TEST_CASE("block shows a block's state, holders and history") {
  CliFixture fixture;
  v1::GetBlockResponse response;
  *response.mutable_block() = Block(17);
  v1::BlockStatus::Holder& holder = *response.mutable_block()->add_holders();
  holder.set_session_id("0123abcd");
  holder.set_client_name("prefill");
  holder.set_references(2);
  v1::BlockTraceEvent& event = *response.mutable_block()->add_history();
  event.set_operation("alloc");
  event.set_ref_count_after(1);
  event.set_caller("Alloc 0123abcd");
  event.mutable_time()->set_seconds(absl::ToUnixSeconds(test::Now()) - 5);
  fixture.daemon.Answer("GetBlock", response);

  const CliResult result = fixture.Run({"block", "llama", "17"});
  CHECK(result.code == ExitCode::kOk);
  CHECK(fixture.daemon.LastRequest("GetBlock") == "pool: \"llama\" block_id: 17");
  CHECK(result.out ==
        "block       17\n"
        "state       held\n"
        "generation  3\n"
        "references  2\n"
        "tenant      uid-7\n"
        "published   no\n"
        "sealed      yes\n"
        "claimed     no\n"
        "\n"
        "HOLDER    CLIENT   REFS\n"
        "0123abcd  prefill     2\n"
        "\n"
        "TIME                           OPERATION  REFS AFTER  CALLER\n"
        "2026-01-31T11:59:55Z (5s ago)  alloc               1  Alloc 0123abcd\n");
  CHECK(fixture.Run({"block", "llama", "17", "--json"}).out.find("\"generation\": \"3\"") !=
        std::string::npos);
}

TEST_CASE("block without holders or history shows neither table") {
  CliFixture fixture;
  v1::GetBlockResponse response;
  response.mutable_block()->set_state(v1::BlockStatus::STATE_FREE);
  fixture.daemon.Answer("GetBlock", response);
  const CliResult result = fixture.Run({"block", "llama", "0"});
  CHECK(result.out.find("state       free\n") != std::string::npos);
  CHECK(result.out.find("HOLDER") == std::string::npos);
  CHECK(result.out.find("OPERATION") == std::string::npos);
}

TEST_CASE("A block id that is no number is a usage error and asks nobody") {
  CliFixture fixture;
  for (const char* id : {"x", "-1", "4294967296", ""}) {
    CAPTURE(id);
    CHECK(fixture.Run({"block", "llama", id}).code == ExitCode::kUsage);
  }
  CHECK(fixture.daemon.LastRequest("GetBlock").empty());
}

TEST_CASE("blocks shows a line for each block of every part of the stream") {
  CliFixture fixture;
  v1::ListBlocksResponse part;
  *part.add_blocks() = Block(5);
  fixture.daemon.Answer("ListBlocks", part);
  *part.mutable_blocks(0) = Block(6);
  part.mutable_blocks(0)->set_state(v1::BlockStatus::STATE_QUARANTINED);
  part.mutable_blocks(0)->set_claimed(true);
  part.mutable_blocks(0)->clear_tenant();
  fixture.daemon.Answer("ListBlocks", part);

  const CliResult result = fixture.Run({"blocks", "llama", "--first=5", "--count=2"});
  CHECK(result.code == ExitCode::kOk);
  CHECK(fixture.daemon.LastRequest("ListBlocks") == "pool: \"llama\" first: 5 count: 2");
  CHECK(result.out ==
        "BLOCK  STATE        GENERATION  REFS  PUBLISHED  SEALED  CLAIMED  TENANT\n"
        "    5  held                  3     2  no         yes     no       uid-7\n"
        "    6  quarantined           3     2  no         yes     yes      -\n");
  const std::string json = fixture.Run({"blocks", "llama", "--json"}).out;
  CHECK(json.find("\"blockId\": 5") != std::string::npos);
  CHECK(json.find("\"blockId\": 6") != std::string::npos);
}

TEST_CASE("blocks says so where there are none from the first on") {
  CliFixture fixture;
  fixture.daemon.Answer("ListBlocks", v1::ListBlocksResponse());
  const CliResult result = fixture.Run({"blocks", "llama", "--first=64"});
  CHECK(result.code == ExitCode::kOk);
  CHECK(result.out == "no blocks from 64 on\n");
  CHECK(fixture.Run({"blocks", "llama", "--first=64", "--json"}).out == "{\n \"blocks\": []\n}\n");
}

TEST_CASE("blocks shows nothing of a stream that breaks") {
  CliFixture fixture;
  fixture.daemon.Fail("ListBlocks", absl::StatusCode::kNotFound, Reason::kUnspecified, "no pool");
  const CliResult result = fixture.Run({"blocks", "llama"});
  CHECK(result.code == ExitCode::kRefused);
  CHECK(result.out.empty());
}

v1::SideChecksum Sums(double sum) {
  v1::SideChecksum sums;
  sums.set_sum(sum);
  sums.set_sum_of_squares(2);
  sums.set_sum_of_absolutes(3);
  sums.set_nan_count(4);
  sums.set_crc32c(0xAB);
  sums.set_has_sums(true);
  return sums;
}

TEST_CASE("checksum shows each layer's prefix and suffix, K and V, exactly") {
  CliFixture fixture;
  v1::ChecksumLayersResponse response;
  v1::LayerChecksum& layer = *response.add_layers();
  *layer.mutable_prefix_k() = Sums(0.1);
  *layer.mutable_prefix_v() = Sums(1);
  *layer.mutable_suffix_k() = Sums(2);
  layer.mutable_suffix_v()->set_crc32c(0xDEADBEEF);
  fixture.daemon.Answer("ChecksumLayers", response);
  const CliResult result = fixture.Run({"checksum", "llama", "0-2,7", "--boundary=2", "--tag=run"});
  CHECK(result.code == ExitCode::kOk);
  CHECK(fixture.daemon.LastRequest("ChecksumLayers") ==
        "pool: \"llama\" block_ids: 0 block_ids: 1 block_ids: 2 block_ids: 7 boundary: 2 "
        "tag: \"run\"");
  CHECK(
      result.out ==
      "LAYER  REGION  SIDE                  SUM  SUM OF SQUARES  SUM OF ABSOLUTES  NANS  CRC32C\n"
      "    0  prefix  K     0.10000000000000001               2                 3     4  000000ab\n"
      "    0  prefix  V                       1               2                 3     4  000000ab\n"
      "    0  suffix  K                       2               2                 3     4  000000ab\n"
      "    0  suffix  V                       -               -                 -     -  "
      "deadbeef\n");
  // Without a boundary all is prefix.
  fixture.Run({"checksum", "llama", "1", "--shard=3", "--json"});
  CHECK(fixture.daemon.LastRequest("ChecksumLayers") ==
        "pool: \"llama\" block_ids: 1 boundary: 4294967295 shard: 3");
}

TEST_CASE("checksum with --layer shows that layer, block by block") {
  CliFixture fixture;
  v1::ChecksumBlocksResponse response;
  v1::BlockChecksum& block = *response.add_blocks();
  block.set_logical_index(0);
  block.set_block_id(9);
  *block.mutable_k() = Sums(1);
  fixture.daemon.Answer("ChecksumBlocks", response);
  const CliResult result = fixture.Run({"checksum", "llama", "9", "--layer=0"});
  CHECK(result.code == ExitCode::kOk);
  CHECK(fixture.daemon.LastRequest("ChecksumBlocks") == "pool: \"llama\" block_ids: 9");
  CHECK(result.out ==
        "INDEX  BLOCK  SIDE  SUM  SUM OF SQUARES  SUM OF ABSOLUTES  NANS  CRC32C\n"
        "    0      9  K       1               2                 3     4  000000ab\n");
  CHECK(fixture.Run({"checksum", "llama", "9", "--layer=0", "--json"}).out.find("\"blockId\": 9") !=
        std::string::npos);
}

TEST_CASE("checksum refuses lists and options that make no sense, and asks nobody") {
  CliFixture fixture;
  CHECK(fixture.Run({"checksum", "llama", "3-1"}).code == ExitCode::kUsage);
  CHECK(fixture.Run({"checksum", "llama", "1", "--layer=0", "--boundary=1"}).code ==
        ExitCode::kUsage);
  CHECK(fixture.Run({"checksum", "llama", "1", "--layer=0", "--tag=x"}).code == ExitCode::kUsage);
  CHECK(fixture.daemon.LastRequest("ChecksumLayers").empty());
  CHECK(fixture.daemon.LastRequest("ChecksumBlocks").empty());
}

}  // namespace
}  // namespace kvpool::cli
