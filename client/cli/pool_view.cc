#include "client/cli/pool_view.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "client/cli/table.h"
#include "client/cli/text.h"

namespace kvpool::cli {
namespace {

// "196608 (192 KiB)": the number for programs and eyes, and its size.
std::string ExactBytes(uint64_t bytes) {
  return bytes < 1024 ? BytesText(bytes) : absl::StrCat(bytes, " (", BytesText(bytes), ")");
}

std::string DevicesText(const v1::PoolStatus& pool) {
  return absl::StrJoin(pool.devices(), ", ", [](std::string* out, const v1::Device& device) {
    absl::StrAppend(out, DeviceText(device));
  });
}

uint64_t TotalBytes(const v1::PoolLayout& layout) {
  return layout.shard_bytes() * static_cast<uint64_t>(layout.spec().devices_size());
}

void AddSide(uint32_t layer, absl::string_view name, const v1::SideLayout& side, Table& table) {
  table.AddRow({absl::StrCat(layer), std::string(name), side.dtype(),
                absl::StrCat(side.num_heads()), absl::StrCat(side.head_dim()),
                absl::StrCat(side.offset_bytes()), absl::StrCat(side.stride_bytes()),
                absl::StrCat(side.block_bytes()), absl::StrCat(side.data_bytes()),
                absl::StrCat(side.scale_bytes())});
}

std::string SidesText(const v1::PoolLayout& layout) {
  Table table({">LAYER", "SIDE", "DTYPE", ">HEADS", ">DIM", ">OFFSET", ">STRIDE", ">BLOCK", ">DATA",
               ">SCALES"});
  const bool is_alias = layout.spec().v_mode() == v1::V_MODE_ALIASES_K;
  for (int i = 0; i < layout.layers_size(); ++i) {
    const v1::LayerLayout& layer = layout.layers(i);
    const auto number = static_cast<uint32_t>(i);
    AddSide(number, is_alias ? "K=V" : "K", layer.k(), table);
    if (layer.has_v() && !is_alias) AddSide(number, "V", layer.v(), table);
  }
  return table.ToString();
}

void AddGeometry(const v1::PoolLayout& layout, Table& table) {
  const v1::PoolSpec& spec = layout.spec();
  table.AddRow({"blocks", absl::StrCat(layout.num_blocks(), " of ", spec.block_size(), " tokens")});
  table.AddRow({"layers", absl::StrCat(layout.layers_size())});
  table.AddRow({"dtype", spec.dtype()});
  table.AddRow({"v mode", EnumText(v1::VMode_Name(spec.v_mode()), "V_MODE_")});
  table.AddRow(
      {"memory order", EnumText(v1::MemoryOrder_Name(spec.memory_order()), "MEMORY_ORDER_")});
  table.AddRow({"block bytes", ExactBytes(layout.block_bytes())});
  table.AddRow({"shard bytes", ExactBytes(layout.shard_bytes())});
  table.AddRow({"shards",
                absl::StrCat(spec.devices_size(), " (", absl::StrJoin(spec.devices(), ", "), ")")});
  table.AddRow({"total bytes", ExactBytes(TotalBytes(layout))});
  table.AddRow({"fingerprint", layout.fingerprint()});
}

// Who may use the pool, how much of it, and what goes first when room is needed.
void AddRules(const v1::PoolSpec& spec, Table& table) {
  table.AddRow(
      {"tenants", spec.tenants().empty() ? "every worker's" : absl::StrJoin(spec.tenants(), ", ")});
  table.AddRow({"blocks a tenant", spec.max_blocks_per_tenant() == 0
                                       ? "no limit"
                                       : absl::StrCat("at most ", spec.max_blocks_per_tenant())});
  table.AddRow({"eviction", spec.eviction_policy()});
  table.AddRow({"fill on alloc", EnumText(v1::Fill_Name(spec.fill_on_alloc()), "FILL_")});
  if (spec.cache_blocks_per_seq() > 0) {
    table.AddRow(
        {"blocks a sequence", absl::StrCat("advised: at most ", spec.cache_blocks_per_seq())});
  }
}

}  // namespace

std::string DeviceText(const v1::Device& device) {
  if (device.kind() == v1::DEVICE_KIND_HOST) return "host";
  std::string text = absl::StrCat(EnumText(v1::DeviceKind_Name(device.kind()), "DEVICE_KIND_"), " ",
                                  device.uuid());
  if (!device.name().empty()) absl::StrAppend(&text, " (", device.name(), ")");
  return text;
}

std::string PoolsText(const google::protobuf::RepeatedPtrField<v1::PoolStatus>& pools) {
  Table table({"POOL", ">BLOCKS", ">FREE", ">CACHED", ">HELD", ">QUARANTINED", ">SESSIONS",
               ">WAITING", ">BLOCK SIZE", ">MEMORY", "DEVICES", "STATE"});
  for (const v1::PoolStatus& pool : pools) {
    table.AddRow({pool.layout().spec().name(), absl::StrCat(pool.layout().num_blocks()),
                  absl::StrCat(pool.free_blocks()), absl::StrCat(pool.cached_blocks()),
                  absl::StrCat(pool.held_blocks()), absl::StrCat(pool.quarantined_blocks()),
                  absl::StrCat(pool.sessions()), absl::StrCat(pool.waiting_calls()),
                  BytesText(pool.layout().block_bytes()), BytesText(TotalBytes(pool.layout())),
                  DevicesText(pool), pool.failure().empty() ? "ok" : pool.failure()});
  }
  return table.ToString();
}

std::string PoolText(const v1::PoolStatus& pool) {
  Table table;
  table.AddRow({"pool", pool.layout().spec().name()});
  table.AddRow({"state", pool.failure().empty() ? "ok" : pool.failure()});
  table.AddRow({"free", absl::StrCat(pool.free_blocks())});
  table.AddRow({"cached", absl::StrCat(pool.cached_blocks())});
  table.AddRow({"held", absl::StrCat(pool.held_blocks())});
  table.AddRow({"quarantined", absl::StrCat(pool.quarantined_blocks())});
  table.AddRow({"published", absl::StrCat(pool.published_blocks())});
  table.AddRow({"sessions", absl::StrCat(pool.sessions())});
  table.AddRow({"waiting calls", absl::StrCat(pool.waiting_calls())});
  table.AddRow({"devices", DevicesText(pool)});
  AddRules(pool.layout().spec(), table);
  AddGeometry(pool.layout(), table);
  return absl::StrCat(table.ToString(), "\n", SidesText(pool.layout()));
}

std::string LayoutText(const v1::PoolLayout& layout) {
  Table table;
  AddGeometry(layout, table);
  return absl::StrCat(table.ToString(), "\n", SidesText(layout));
}

}  // namespace kvpool::cli
