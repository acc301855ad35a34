#include "server/rpc/checksum_calls.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include <spdlog/spdlog.h>

#include "core/status_macros.h"
#include "server/rpc/admission.h"
#include "server/rpc/convert.h"
#include "server/rpc/inspect_convert.h"
#include "server/rpc/list_stream.h"
#include "server/rpc/refused_stream.h"

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

// What ChecksumBlocks found, of one block after the other.
class BlockSumLister {
 public:
  // The request must outlive it.
  BlockSumLister(const v1::ChecksumBlocksRequest& request, std::vector<BlockChecksum> sums)
      : request_(request), sums_(std::move(sums)) {}

  absl::StatusOr<bool> operator()(v1::ChecksumBlocksResponse& message) {
    const size_t end = std::min(sums_.size(), next_ + kChecksumBlocksChunk);
    for (; next_ < end; ++next_) {
      v1::BlockChecksum& added = *message.add_blocks();
      added.set_logical_index(static_cast<uint32_t>(next_));
      added.set_block_id(request_.block_ids(static_cast<int>(next_)));
      *added.mutable_k() = ToMessage(sums_[next_].k);
      *added.mutable_v() = ToMessage(sums_[next_].v);
    }
    return message.blocks_size() > 0;
  }

 private:
  const v1::ChecksumBlocksRequest& request_;
  std::vector<BlockChecksum> sums_;
  size_t next_ = 0;
};

absl::Status BeginChecksumBlocks(
    const ServiceContext& context, const v1::ChecksumBlocksRequest& request,
    const std::shared_ptr<ListStream<v1::ChecksumBlocksResponse>>& stream) {
  KVPOOL_ASSIGN_OR_RETURN(const ServedPool served, context.pools.Find(request.pool()));
  KVPOOL_ASSIGN_OR_RETURN(std::vector<BlockRef> blocks,
                          ToBlockRefs("request", request.block_ids(), request.generations(),
                                      context.limits.max_blocks_per_call));
  served.pool->ChecksumBlocks(std::move(blocks), request.layer(), request.shard(),
                              [&request, stream](absl::StatusOr<std::vector<BlockChecksum>> sums) {
                                if (!sums.ok()) {
                                  stream->Refuse(sums.status());
                                  return;
                                }
                                spdlog::info(
                                    "event=block_checksums pool={} layer={} shard={} blocks={}",
                                    request.pool(), request.layer(), request.shard(), sums->size());
                                stream->Begin(BlockSumLister(request, *std::move(sums)));
                              });
  return absl::OkStatus();
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

grpc::ServerWriteReactor<v1::ChecksumBlocksResponse>* StartChecksumBlocks(
    const ServiceContext& context, grpc::CallbackServerContext* call,
    const v1::ChecksumBlocksRequest& request) {
  using Response = v1::ChecksumBlocksResponse;
  const size_t list_bytes = static_cast<size_t>(request.block_ids_size()) * sizeof(BlockChecksum);
  absl::StatusOr<AdmittedCall> admitted =
      AdmitCall(context, *call, Access::kContent, request, kStreamBytes + list_bytes);
  if (!admitted.ok()) {
    return new RefusedStream<grpc::ServerWriteReactor<Response>>(admitted.status());
  }
  const Peer& peer = *admitted->peer;
  const auto stream = ListStream<Response>::Make(context.workers, *std::move(admitted));
  // A long list takes long to look at.
  PostAt(Place::kWorkers, context, peer, [&context, &request, stream] {
    const absl::Status status = BeginChecksumBlocks(context, request, stream);
    if (!status.ok()) stream->Refuse(status);
  });
  return stream.get();
}

}  // namespace kvpool::server
