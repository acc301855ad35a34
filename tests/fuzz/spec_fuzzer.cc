// Specs of pools, as messages, by way of their JSON. A layout that comes of one is whole: nothing
// overflows, overlaps or is left over, and planning it again gives it again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>

#include "core/layout/pool_layout.h"
#include "core/layout/spec_check.h"
#include "kvpool/v1/layout.pb.h"
#include "proto/convert/json_check.h"
#include "proto/convert/layout_convert.h"
#include "tests/fuzz/finding.h"
#include "tests/fuzz/message_mutator.h"

namespace kvpool::test {
namespace {

// Holds any product of two numbers of 64 bits.
__extension__ using Wide = unsigned __int128;

// What JSON says of a message is what is read out of it, where it is taken.
void CheckJson(const v1::PoolSpec& message) {
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(message, &json).ok()) return;
  v1::PoolSpec read;
  if (!ParseJson(json, read).ok()) return;
  Expect(google::protobuf::util::MessageDifferencer::Equals(read, message),
         "JSON is read as another spec: " + json);
}

using Run = std::pair<Wide, Wide>;  // From, and to where.

// Where the first block of a side lies, or in LAYER_MAJOR order all of them, which is what may not
// overlap.
void AddRuns(const PoolLayout& layout, const SideLayout& side, std::vector<Run>& runs) {
  const Wide begin = side.offset_bytes;
  const Wide end = begin + Wide{layout.num_blocks - 1} * side.stride_bytes + side.block_bytes;
  Expect(end <= layout.shard_bytes, "a side that goes beyond its shard");
  Expect(Wide{side.data_bytes} + side.scale_bytes == side.block_bytes,
         "a side's bytes are not those of its elements and scales");
  Expect(side.stride_bytes >= side.block_bytes, "blocks of a side overlap");
  const bool is_layer_major = layout.spec.memory_order == MemoryOrder::kLayerMajor;
  runs.emplace_back(begin, is_layer_major ? end : begin + side.block_bytes);
}

void CheckLayout(const PoolLayout& layout) {
  Expect(layout.num_blocks >= 1 && layout.num_blocks <= kMaxBlocks, "a count of blocks");
  Expect(layout.layers.size() == layout.spec.num_layers, "a count of layers");
  Expect(Wide{layout.shard_bytes} * layout.num_shards() <= UINT64_MAX, "shards overflow");
  Expect(Wide{layout.block_bytes} * layout.num_blocks <= layout.shard_bytes, "blocks do not fit");
  std::vector<Run> runs;
  Wide block_bytes = 0;
  for (const LayerLayout& layer : layout.layers) {
    AddRuns(layout, layer.k, runs);
    block_bytes += layer.k.block_bytes;
    Expect(layer.v.has_value() == (layout.spec.v_mode != VMode::kNone), "V where there is none");
    if (layout.spec.v_mode == VMode::kAliasesK) Expect(layer.v == layer.k, "V is not K");
    if (layout.spec.v_mode != VMode::kSeparate) continue;
    AddRuns(layout, *layer.v, runs);
    block_bytes += layer.v->block_bytes;
  }
  Expect(block_bytes == layout.block_bytes, "a block's bytes are not those of its sides");
  std::ranges::sort(runs);
  for (size_t i = 1; i < runs.size(); ++i) {
    Expect(runs[i - 1].second <= runs[i].first, "sides overlap");
  }
  if (layout.spec.memory_bytes.has_value()) {
    Expect(layout.shard_bytes <= *layout.spec.memory_bytes, "more bytes than were asked for");
  }
}

void CheckSpec(const v1::PoolSpec& message) {
  CheckJson(message);
  const auto spec = SpecFromProto(message);
  if (!spec.ok()) return;
  std::vector<DeviceMemory> devices;
  if (spec->memory_utilization.has_value()) {
    devices.assign(std::max<size_t>(1, spec->devices.size()),
                   {.total_bytes = uint64_t{80} << 30, .free_bytes = uint64_t{79} << 30});
  }
  if (devices.size() > kMaxShards) devices.clear();
  const auto layout = PlanPool(*spec, devices);
  if (!layout.ok()) {
    Expect(absl::IsInvalidArgument(layout.status()) || absl::IsResourceExhausted(layout.status()),
           "a spec is refused as " + layout.status().ToString());
    return;
  }
  CheckLayout(*layout);
  const auto again = PlanPool(layout->spec, devices);
  Expect(again.ok() && *again == *layout, "a spec filled in has another layout");
  const auto read = LayoutFromProto(LayoutToProto(*layout));
  Expect(read.ok() && *read == *layout, "a layout's message is another layout");
}

}  // namespace
}  // namespace kvpool::test

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  kvpool::v1::PoolSpec message;
  return kvpool::test::MutateMessage(message, data, size, max_size, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvpool::v1::PoolSpec message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return -1;
  kvpool::test::CheckSpec(message);
  return 0;
}
