#include "server/rpc/checksum_calls.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include <spdlog/spdlog.h>

#include "core/status_macros.h"
#include "server/rpc/convert.h"
#include "server/rpc/inspect_convert.h"

namespace kvpool::server {
namespace {

void LogLayers(const std::string& pool, const v1::ChecksumLayersResponse& response) {
  // A caller's text: on one line, whatever it holds.
  const std::string tag = absl::Utf8SafeCEscape(response.tag());
  for (const v1::LayerChecksum& layer : response.layers()) {
    spdlog::info(
        "event=layer_checksum pool={} tag=\"{}\" layer={} prefix_k={:08x} prefix_v={:08x} "
        "suffix_k={:08x} suffix_v={:08x} prefix_k_sum={:.17g} prefix_v_sum={:.17g} "
        "suffix_k_sum={:.17g} suffix_v_sum={:.17g}",
        pool, tag, layer.layer(), layer.prefix_k().crc32c(), layer.prefix_v().crc32c(),
        layer.suffix_k().crc32c(), layer.suffix_v().crc32c(), layer.prefix_k().sum(),
        layer.prefix_v().sum(), layer.suffix_k().sum(), layer.suffix_v().sum());
  }
}

}  // namespace

absl::Status StartChecksumLayers(const ServiceContext& context,
                                 const v1::ChecksumLayersRequest& request,
                                 v1::ChecksumLayersResponse& response, Reply reply) {
  if (request.tag().size() > kMaxTagBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("tag has ", request.tag().size(), " bytes; it has at most ", kMaxTagBytes));
  }
  KVPOOL_ASSIGN_OR_RETURN(const ServedPool served, context.pools.Find(request.pool()));
  KVPOOL_ASSIGN_OR_RETURN(std::vector<BlockRef> blocks,
                          ToBlockRefs("request", request.block_ids(), request.generations(),
                                      context.limits.max_blocks_per_call));
  response.set_tag(request.tag());
  served.pool->ChecksumLayers(
      std::move(blocks), request.boundary(), request.shard(),
      [&request, &response, reply](const absl::StatusOr<std::vector<LayerChecksum>>& layers) {
        if (layers.ok()) {
          for (size_t i = 0; i < layers->size(); ++i) {
            const LayerChecksum& layer = (*layers)[i];
            v1::LayerChecksum& message = *response.add_layers();
            message.set_layer(static_cast<uint32_t>(i));
            *message.mutable_prefix_k() = ToMessage(layer.prefix_k);
            *message.mutable_prefix_v() = ToMessage(layer.prefix_v);
            *message.mutable_suffix_k() = ToMessage(layer.suffix_k);
            *message.mutable_suffix_v() = ToMessage(layer.suffix_v);
          }
          LogLayers(request.pool(), response);
        }
        reply(layers.status());
      });
  return absl::OkStatus();
}

absl::Status StartChecksumBlocks(const ServiceContext& context,
                                 const v1::ChecksumBlocksRequest& request,
                                 v1::ChecksumBlocksResponse& response, Reply reply) {
  KVPOOL_ASSIGN_OR_RETURN(const ServedPool served, context.pools.Find(request.pool()));
  KVPOOL_ASSIGN_OR_RETURN(std::vector<BlockRef> blocks,
                          ToBlockRefs("request", request.block_ids(), request.generations(),
                                      context.limits.max_blocks_per_call));
  served.pool->ChecksumBlocks(
      std::move(blocks), request.layer(), request.shard(),
      [&request, &response, reply](const absl::StatusOr<std::vector<BlockChecksum>>& blocks_sums) {
        if (blocks_sums.ok()) {
          for (size_t i = 0; i < blocks_sums->size(); ++i) {
            v1::BlockChecksum& message = *response.add_blocks();
            message.set_logical_index(static_cast<uint32_t>(i));
            message.set_block_id(request.block_ids(static_cast<int>(i)));
            *message.mutable_k() = ToMessage((*blocks_sums)[i].k);
            *message.mutable_v() = ToMessage((*blocks_sums)[i].v);
          }
          spdlog::info("event=block_checksums pool={} layer={} shard={} blocks={}", request.pool(),
                       request.layer(), request.shard(), response.blocks_size());
        }
        reply(blocks_sums.status());
      });
  return absl::OkStatus();
}

}  // namespace kvpool::server
