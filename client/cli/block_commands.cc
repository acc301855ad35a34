#include "client/cli/block_commands.h"

#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/cli/connection.h"
#include "client/cli/json.h"
#include "client/cli/table.h"
#include "client/cli/text.h"
#include "client/cli/time_view.h"
#include "core/status_macros.h"

namespace kvpool::cli {
namespace {

std::string StateText(const v1::BlockStatus& block) {
  return EnumText(v1::BlockStatus::State_Name(block.state()), "STATE_");
}

std::string YesNo(bool value) { return value ? "yes" : "no"; }

std::string BlockText(const v1::BlockStatus& block, absl::Time now) {
  Table table;
  table.AddRow({"block", absl::StrCat(block.block_id())});
  table.AddRow({"state", StateText(block)});
  table.AddRow({"generation", absl::StrCat(block.generation())});
  table.AddRow({"references", absl::StrCat(block.ref_count())});
  table.AddRow({"tenant", block.tenant().empty() ? "-" : block.tenant()});
  table.AddRow({"published", YesNo(block.published())});
  table.AddRow({"sealed", YesNo(block.sealed())});
  table.AddRow({"claimed", YesNo(block.claimed())});
  std::string text = table.ToString();
  if (block.holders_size() > 0) {
    Table holders({"HOLDER", "CLIENT", ">REFS"});
    for (const v1::BlockStatus::Holder& holder : block.holders()) {
      holders.AddRow(
          {holder.session_id(), holder.client_name(), absl::StrCat(holder.references())});
    }
    absl::StrAppend(&text, "\n", holders.ToString());
  }
  if (block.history_size() > 0) {
    Table history({"TIME", "OPERATION", ">REFS AFTER", "CALLER"});
    for (const v1::BlockTraceEvent& event : block.history()) {
      history.AddRow({TimeText(event.time(), now), event.operation(),
                      absl::StrCat(event.ref_count_after()), event.caller()});
    }
    absl::StrAppend(&text, "\n", history.ToString());
  }
  return text;
}

std::string BlocksText(const v1::ListBlocksResponse& response, uint32_t first) {
  if (response.blocks().empty()) return absl::StrCat("no blocks from ", first, " on\n");
  Table table(
      {">BLOCK", "STATE", ">GENERATION", ">REFS", "PUBLISHED", "SEALED", "CLAIMED", "TENANT"});
  for (const v1::BlockStatus& block : response.blocks()) {
    table.AddRow({absl::StrCat(block.block_id()), StateText(block),
                  absl::StrCat(block.generation()), absl::StrCat(block.ref_count()),
                  YesNo(block.published()), YesNo(block.sealed()), YesNo(block.claimed()),
                  block.tenant().empty() ? "-" : block.tenant()});
  }
  return table.ToString();
}

// The columns of a side's sums. 17 digits give a double back exactly.
std::vector<std::string> SumCells(const v1::SideChecksum& sums) {
  const auto number = [&](double value) {
    return sums.has_sums() ? absl::StrFormat("%.17g", value) : std::string("-");
  };
  return {number(sums.sum()), number(sums.sum_of_squares()), number(sums.sum_of_absolutes()),
          sums.has_sums() ? absl::StrCat(sums.nan_count()) : "-",
          absl::StrFormat("%08x", sums.crc32c())};
}

void AddSums(std::vector<std::string> cells, const v1::SideChecksum& sums, Table& table) {
  for (std::string& cell : SumCells(sums)) cells.push_back(std::move(cell));
  table.AddRow(std::move(cells));
}

std::string LayerSumsText(const v1::ChecksumLayersResponse& response) {
  Table table({">LAYER", "REGION", "SIDE", ">SUM", ">SUM OF SQUARES", ">SUM OF ABSOLUTES", ">NANS",
               "CRC32C"});
  for (const v1::LayerChecksum& layer : response.layers()) {
    const std::string number = absl::StrCat(layer.layer());
    AddSums({number, "prefix", "K"}, layer.prefix_k(), table);
    if (layer.has_prefix_v()) AddSums({number, "prefix", "V"}, layer.prefix_v(), table);
    AddSums({number, "suffix", "K"}, layer.suffix_k(), table);
    if (layer.has_suffix_v()) AddSums({number, "suffix", "V"}, layer.suffix_v(), table);
  }
  return table.ToString();
}

std::string BlockSumsText(const v1::ChecksumBlocksResponse& response) {
  Table table({">INDEX", ">BLOCK", "SIDE", ">SUM", ">SUM OF SQUARES", ">SUM OF ABSOLUTES", ">NANS",
               "CRC32C"});
  for (const v1::BlockChecksum& block : response.blocks()) {
    const std::string index = absl::StrCat(block.logical_index());
    const std::string id = absl::StrCat(block.block_id());
    AddSums({index, id, "K"}, block.k(), table);
    if (block.has_v()) AddSums({index, id, "V"}, block.v(), table);
  }
  return table.ToString();
}

absl::StatusOr<ExitCode> ChecksumOneLayer(const CommandContext& context,
                                          std::span<const uint32_t> ids) {
  if (context.options.boundary.has_value() || !context.options.tag.empty()) {
    return UsageError("--boundary and --tag do not go with --layer");
  }
  Connection& connection = *context.connection;
  v1::ChecksumBlocksRequest request;
  request.set_pool(context.arguments[0]);
  request.mutable_block_ids()->Add(ids.begin(), ids.end());
  request.set_layer(*context.options.layer);
  request.set_shard(context.options.shard);
  v1::ChecksumBlocksResponse response;
  KVPOOL_RETURN_IF_ERROR(connection.CallList(
      connection.inspect(), &v1::InspectService::Stub::ChecksumBlocks, request, &response));
  context.out << (context.options.json ? ToJson(response) : BlockSumsText(response));
  return ExitCode::kOk;
}

}  // namespace

absl::StatusOr<ExitCode> RunBlock(const CommandContext& context) {
  v1::GetBlockRequest request;
  request.set_pool(context.arguments[0]);
  uint32_t id = 0;
  if (!absl::SimpleAtoi(context.arguments[1], &id)) {
    return UsageError(
        absl::StrCat("\"", Printable(context.arguments[1]), "\" is no block id: a number"));
  }
  request.set_block_id(id);
  Connection& connection = *context.connection;
  v1::GetBlockResponse response;
  KVPOOL_RETURN_IF_ERROR(connection.Call(connection.inspect(), &v1::InspectService::Stub::GetBlock,
                                         request, &response));
  context.out << (context.options.json ? ToJson(response)
                                       : BlockText(response.block(), context.now));
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> RunBlocks(const CommandContext& context) {
  v1::ListBlocksRequest request;
  request.set_pool(context.arguments[0]);
  request.set_first(context.options.first);
  request.set_count(context.options.count);
  Connection& connection = *context.connection;
  v1::ListBlocksResponse all;
  KVPOOL_RETURN_IF_ERROR(connection.CallList(connection.inspect(),
                                             &v1::InspectService::Stub::ListBlocks, request, &all));
  context.out << (context.options.json ? ToJson(all) : BlocksText(all, request.first()));
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> RunChecksum(const CommandContext& context) {
  KVPOOL_ASSIGN_OR_RETURN(const std::vector<uint32_t> ids, ParseBlockList(context.arguments[1]));
  if (context.options.layer.has_value()) return ChecksumOneLayer(context, ids);
  Connection& connection = *context.connection;
  v1::ChecksumLayersRequest request;
  request.set_pool(context.arguments[0]);
  request.mutable_block_ids()->Add(ids.begin(), ids.end());
  request.set_boundary(context.options.boundary.value_or(std::numeric_limits<uint32_t>::max()));
  request.set_shard(context.options.shard);
  request.set_tag(context.options.tag);
  v1::ChecksumLayersResponse response;
  KVPOOL_RETURN_IF_ERROR(connection.Call(
      connection.inspect(), &v1::InspectService::Stub::ChecksumLayers, request, &response));
  context.out << (context.options.json ? ToJson(response) : LayerSumsText(response));
  return ExitCode::kOk;
}

}  // namespace kvpool::cli
