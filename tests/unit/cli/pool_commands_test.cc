#include <string>

#include "core/layout/pool_layout.h"
#include "kvpool/v1/admin.pb.h"
#include "kvpool/v1/inspect.pb.h"
#include "proto/convert/layout_convert.h"
#include "tests/support/catch.h"
#include "tests/unit/cli/run_cli.h"

namespace kvpool::cli {
namespace {

using test::CliFixture;
using test::CliResult;

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Two layers of 1 head of 16, fp8: 256 bytes a side.
constexpr char kGeometry[] = R"({"num_layers": 2, "num_kv_heads": 1, "head_dim": 16})";

v1::PoolStatus SmallPool() {
  PoolSpec spec;
  spec.name = "small";
  spec.num_layers = 1;
  spec.num_kv_heads = 1;
  spec.head_dim = 16;
  spec.num_blocks = 4;
  spec.devices = {"host", "host"};
  v1::PoolStatus pool;
  *pool.mutable_layout() = LayoutToProto(PlanPool(spec).value());
  pool.set_free_blocks(4);
  pool.add_devices()->set_kind(v1::DEVICE_KIND_HOST);
  v1::Device& device = *pool.add_devices();
  device.set_kind(v1::DEVICE_KIND_CUDA);
  device.set_uuid("GPU-1");
  device.set_name("Card");
  return pool;
}

TEST_CASE("plan shows how many blocks fit and every stride, without a daemon") {
  const CliResult result =
      test::RunCli({"plan", "--bytes=4KiB", std::string("--spec=") + kGeometry});
  CHECK(result.code == ExitCode::kOk);
  CHECK(result.errors.empty());
  CHECK(Has(result.out, "blocks        4 of 16 tokens\n"));
  CHECK(Has(result.out, "block bytes   1024 (1 KiB)\n"));
  CHECK(Has(result.out, "shard bytes   4096 (4 KiB)\n"));
  CHECK(Has(result.out,
            "LAYER  SIDE  DTYPE  HEADS  DIM  OFFSET  STRIDE  BLOCK  DATA  SCALES\n"
            "    0  K     fp8        1   16       0     256    256   256       0\n"
            "    0  V     fp8        1   16    1024     256    256   256       0\n"
            "    1  K     fp8        1   16    2048     256    256   256       0\n"
            "    1  V     fp8        1   16    3072     256    256   256       0\n"));
}

TEST_CASE("plan takes --bytes instead of the size in the spec") {
  const std::string spec =
      R"(--spec={"name": "p", "num_layers": 1, "num_kv_heads": 1, "head_dim": 16,
                 "memory_utilization": 0.9, "reserve_bytes": 100})";
  CHECK(Has(test::RunCli({"plan", spec, "--bytes=1KiB"}).out, "blocks        2 of 16 tokens\n"));
  const CliResult alone = test::RunCli({"plan", spec});
  CHECK(alone.code == ExitCode::kRefused);
  CHECK(Has(alone.errors, "INVALID_ARGUMENT: memory_utilization is 0.9: "));
}

TEST_CASE("plan shows one line a layer where V is K or there is none") {
  const CliResult aliased = test::RunCli(
      {"plan", R"(--spec={"num_layers": 2, "num_kv_heads": 1, "head_dim": 16, "num_blocks": 1,
                          "v_mode": "V_MODE_ALIASES_K"})"});
  CHECK(Has(aliased.out, "v mode        aliases_k\n"));
  CHECK(
      Has(aliased.out, "\n    1  K=V   fp8        1   16     256     256    256   256       0\n"));
  CHECK_FALSE(Has(aliased.out, "  V  "));
  const CliResult none = test::RunCli(
      {"plan", R"(--spec={"num_layers": 2, "num_kv_heads": 1, "head_dim": 16, "num_blocks": 1,
                          "v_mode": "V_MODE_NONE"})"});
  CHECK(Has(none.out, "\n    1  K     fp8        1   16     256     256    256   256       0\n"));
  CHECK_FALSE(Has(none.out, "  V  "));
}

TEST_CASE("plan as JSON is a PlanPoolResponse") {
  const CliResult result =
      test::RunCli({"plan", "--json", "--bytes=4KiB", std::string("--spec=") + kGeometry});
  CHECK(result.code == ExitCode::kOk);
  CHECK(Has(result.out, "\"numBlocks\": 4"));
  CHECK(Has(result.out, "\"strideBytes\": \"256\""));
}

TEST_CASE("plan refuses what the daemon would refuse, and what it cannot read as usage") {
  const CliResult refused =
      test::RunCli({"plan", R"(--spec={"num_layers": 2, "num_kv_heads": 1, "num_blocks": 1})"});
  CHECK(refused.code == ExitCode::kRefused);
  CHECK(Has(refused.errors, "INVALID_ARGUMENT: head_dim is 0: "));
  const CliResult none = test::RunCli({"plan", "--bytes=1", std::string("--spec=") + kGeometry});
  CHECK(none.code == ExitCode::kRefused);
  CHECK(Has(none.errors, "RESOURCE_EXHAUSTED: memory_bytes is 1: "));
  CHECK(test::RunCli({"plan", "--spec={"}).code == ExitCode::kUsage);
  CHECK(test::RunCli({"plan"}).code == ExitCode::kUsage);
  CHECK(Has(test::RunCli({"plan"}).errors, "--spec is needed"));
}

TEST_CASE("pools shows a line for each pool, or all about one") {
  CliFixture fixture;
  v1::ListPoolsResponse pools;
  *pools.add_pools() = SmallPool();
  *pools.add_pools() = SmallPool();
  pools.mutable_pools(1)->mutable_layout()->mutable_spec()->set_name("failed");
  pools.mutable_pools(1)->set_failure("device lost");
  fixture.daemon.Answer("ListPools", pools);
  const CliResult all = fixture.Run({"pools"});
  CHECK(all.code == ExitCode::kOk);
  CHECK(Has(all.out, "\nsmall        4     4 "));
  CHECK(Has(all.out, "  host, cuda GPU-1 (Card)  ok\n"));
  CHECK(Has(all.out, "  device lost\n"));
  CHECK(Has(fixture.Run({"pools", "--json"}).out, "\"failure\": \"device lost\""));

  v1::GetPoolResponse one;
  *one.mutable_pool() = SmallPool();
  fixture.daemon.Answer("GetPool", one);
  const CliResult detail = fixture.Run({"pools", "small"});
  CHECK(detail.code == ExitCode::kOk);
  CHECK(fixture.daemon.LastRequest("GetPool") == "name: \"small\"");
  CHECK(Has(detail.out, "pool             small\n"));
  CHECK(Has(detail.out, "free             4\n"));
  CHECK(Has(detail.out, "shards           2 (host, host)\n"));
  CHECK(Has(detail.out, "total bytes      4096 (4 KiB)\n"));
  CHECK(Has(detail.out, "\nLAYER  SIDE  DTYPE "));
  CHECK(Has(fixture.Run({"pools", "small", "--json"}).out, "\"freeBlocks\": 4"));
}

TEST_CASE("pools of one pool shows its tenants, their limit and the eviction policy") {
  CliFixture fixture;
  v1::GetPoolResponse one;
  *one.mutable_pool() = SmallPool();
  v1::PoolSpec& spec = *one.mutable_pool()->mutable_layout()->mutable_spec();
  fixture.daemon.Answer("GetPool", one);
  const std::string open = fixture.Run({"pools", "small"}).out;
  CHECK(Has(open, "tenants          every worker's\n"));
  CHECK(Has(open, "blocks a tenant  no limit\n"));
  CHECK(Has(open, "eviction         learned\n"));
  CHECK(Has(open, "fill on alloc    across_tenants\n"));
  CHECK_FALSE(Has(open, "blocks a sequence"));
  spec.add_tenants("a");
  spec.add_tenants("b\x1b");
  spec.set_max_blocks_per_tenant(3);
  spec.set_eviction_policy("leaf_lru");
  spec.set_cache_blocks_per_seq(9);
  fixture.daemon.Answer("GetPool", one);
  const std::string limited = fixture.Run({"pools", "small"}).out;
  CHECK(Has(limited, "tenants            a, b\\x1b\n"));
  CHECK(Has(limited, "blocks a tenant    at most 3\n"));
  CHECK(Has(limited, "eviction           leaf_lru\n"));
  CHECK(Has(limited, "blocks a sequence  advised: at most 9\n"));
}

TEST_CASE("create-pool sends the spec and says what was created") {
  CliFixture fixture;
  v1::CreatePoolResponse response;
  *response.mutable_pool() = SmallPool();
  fixture.daemon.Answer("CreatePool", response);
  const CliResult result =
      fixture.Run({"create-pool", R"(--spec={"name": "small", "num_blocks": 4})"});
  CHECK(result.code == ExitCode::kOk);
  CHECK(result.out == "created pool small: 4 blocks of 512 B\n");
  CHECK(fixture.daemon.LastRequest("CreatePool") == "spec { name: \"small\" num_blocks: 4 }");
  CHECK(Has(fixture.Run({"create-pool", "--spec={}", "--json"}).out, "\"numBlocks\": 4"));
  CHECK(fixture.Run({"create-pool"}).code == ExitCode::kUsage);
}

TEST_CASE("delete-pool names the pool") {
  CliFixture fixture;
  fixture.daemon.Answer("DeletePool", v1::DeletePoolResponse());
  const CliResult result = fixture.Run({"delete-pool", "small"});
  CHECK(result.code == ExitCode::kOk);
  CHECK(result.out == "deleted pool small\n");
  CHECK(fixture.daemon.LastRequest("DeletePool") == "name: \"small\"");
  CHECK(fixture.Run({"delete-pool", "small", "--json"}).out == "{}\n");
}

}  // namespace
}  // namespace kvpool::cli
