#include "client/convert.h"

#include "proto/convert/layout_convert.h"
#include "tests/support/catch.h"

namespace kvpool::client {
namespace {

v1::PoolLayout GoodLayout() {
  PoolSpec spec;
  spec.name = "p";
  spec.num_layers = 2;
  spec.num_kv_heads = 1;
  spec.head_dim = 16;
  spec.num_blocks = 4;
  return LayoutToProto(PlanPool(spec).value());
}

TEST_CASE("A layout that the daemon planned is read as it was planned") {
  const auto layout = ReadLayout(GoodLayout());
  REQUIRE(layout.ok());
  CHECK(LayoutToProto(*layout).SerializeAsString() == GoodLayout().SerializeAsString());
}

TEST_CASE("A layout without blocks, layers, shards or known formats is INTERNAL") {
  v1::PoolLayout layout = GoodLayout();
  SECTION("no blocks") { layout.set_num_blocks(0); }
  SECTION("no layers") { layout.clear_layers(); }
  SECTION("no shards") { layout.mutable_spec()->clear_devices(); }
  SECTION("an unknown format") { layout.mutable_layers(1)->mutable_k()->set_dtype("fp5"); }
  CHECK(absl::IsInternal(ReadLayout(layout).status()));
}

TEST_CASE("Blocks are read with their generations") {
  v1::Blocks proto;
  proto.add_block_ids(3);
  proto.add_generations(9);
  const auto blocks = BlocksFromProto(proto, /*num_blocks=*/4);
  REQUIRE(blocks.ok());
  CHECK(*blocks == std::vector<BlockRef>{{.block = BlockId{3}, .generation = Generation{9}}});
}

TEST_CASE("Blocks of another pool, or without generations, are INTERNAL") {
  v1::Blocks proto;
  proto.add_block_ids(3);
  SECTION("no generations") {}
  SECTION("a generation of 0") { proto.add_generations(0); }
  SECTION("more generations than blocks") {
    proto.add_generations(1);
    proto.add_generations(2);
  }
  SECTION("an id that the pool does not have") {
    proto.add_generations(1);
    proto.set_block_ids(0, 4);
  }
  CHECK(absl::IsInternal(BlocksFromProto(proto, /*num_blocks=*/4).status()));
}

TEST_CASE("Blocks are sent with generations where one is given, and without where none is") {
  v1::Blocks with;
  const std::vector<BlockRef> mixed = {{.block = BlockId{1}},
                                       {.block = BlockId{2}, .generation = Generation{7}}};
  BlocksToProto(mixed, with);
  CHECK(with.block_ids_size() == 2);
  REQUIRE(with.generations_size() == 2);
  CHECK(with.generations(0) == 0);
  CHECK(with.generations(1) == 7);

  v1::Blocks without;
  BlocksToProto({mixed.data(), 1}, without);
  CHECK(without.block_ids_size() == 1);
  CHECK(without.generations_size() == 0);
}

TEST_CASE("Durations go over and come back to the nanosecond") {
  for (const Duration duration :
       {Duration{}, Duration(1), Duration(1'999'999'999), Duration(std::chrono::hours(1))}) {
    CHECK(DurationFromProto(DurationToProto(duration)) == duration);
  }
}

TEST_CASE("A duration beyond what 64 bits hold is cut, not wrapped") {
  google::protobuf::Duration proto;
  proto.set_seconds(int64_t{1} << 60);
  CHECK(DurationFromProto(proto) > std::chrono::hours(24));
}

TEST_CASE("Every fill and every notice has its counterpart") {
  CHECK(FillToProto(Fill::kUnspecified) == v1::FILL_UNSPECIFIED);
  CHECK(FillToProto(Fill::kAcrossTenants) == v1::FILL_ACROSS_TENANTS);
  CHECK(FillToProto(Fill::kZero) == v1::FILL_ZERO);
  CHECK(FillToProto(Fill::kPoison) == v1::FILL_POISON);

  const std::vector<std::pair<v1::Notice::Kind, Notice::Kind>> kinds = {
      {v1::Notice::KIND_DRAINING, Notice::Kind::kDraining},
      {v1::Notice::KIND_TERMINATED, Notice::Kind::kTerminated},
      {v1::Notice::KIND_PREFIXES_RESET, Notice::Kind::kPrefixesReset},
      {v1::Notice::KIND_MEMBER_GONE, Notice::Kind::kMemberGone},
      {v1::Notice::KIND_RECALL, Notice::Kind::kRecall}};
  for (const auto& [from, to] : kinds) {
    v1::Notice proto;
    proto.set_kind(from);
    proto.set_message("why");
    proto.set_blocks(3);
    proto.mutable_deadline()->set_seconds(2);
    const auto notice = NoticeFromProto(proto);
    REQUIRE(notice.has_value());
    CHECK(notice->kind == to);
    CHECK(notice->message == "why");
    CHECK(notice->blocks == 3);
    CHECK(notice->deadline == std::chrono::seconds(2));
  }
  CHECK_FALSE(NoticeFromProto(v1::Notice()).has_value());
}

}  // namespace
}  // namespace kvpool::client
