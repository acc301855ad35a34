// FakeBlockService's calls that move bytes.
#include <algorithm>
#include <cstring>
#include <string>

#include "core/error.h"
#include "tests/support/fake_block_service.h"

namespace kvpool::test {

std::span<std::byte> FakeBlockService::SideOf(const v1::BlockPiece& piece) const {
  const LayerLayout& layer = layout_.layers.at(piece.layer());
  const SideLayout& side = piece.side() == v1::SIDE_V ? layer.v.value() : layer.k;
  return memory_.subspan(side.offset_bytes + piece.block_id() * side.stride_bytes,
                         side.block_bytes);
}

grpc::Status FakeBlockService::FillBlocks(grpc::ServerContext* /*context*/,
                                          const v1::FillBlocksRequest* request,
                                          v1::FillBlocksResponse* /*response*/) {
  const MutexLock lock(mutex_);
  if (const grpc::Status status = Begin("FillBlocks", 0); !status.ok()) return status;
  v1::BlockPiece piece;
  for (const uint32_t block : request->blocks().block_ids()) {
    piece.set_block_id(block);
    for (uint32_t layer = 0; layer < layout_.layers.size(); ++layer) {
      piece.set_layer(layer);
      for (const v1::Side side : {v1::SIDE_K, v1::SIDE_V}) {
        piece.set_side(side);
        std::ranges::fill(SideOf(piece),
                          request->fill() == v1::FILL_POISON ? std::byte{0xFF} : std::byte{0});
      }
    }
  }
  return End("FillBlocks");
}

grpc::Status FakeBlockService::CopyBlocks(grpc::ServerContext* /*context*/,
                                          const v1::CopyBlocksRequest* request,
                                          v1::CopyBlocksResponse* /*response*/) {
  const MutexLock lock(mutex_);
  if (const grpc::Status status = Begin("CopyBlocks", 0); !status.ok()) return status;
  for (int i = 0; i < request->sources().block_ids_size(); ++i) {
    for (uint32_t layer = 0; layer < layout_.layers.size(); ++layer) {
      for (const v1::Side side : {v1::SIDE_K, v1::SIDE_V}) {
        v1::BlockPiece from;
        from.set_layer(layer);
        from.set_side(side);
        v1::BlockPiece to = from;
        from.set_block_id(request->sources().block_ids(i));
        to.set_block_id(request->destinations().block_ids(i));
        std::ranges::copy(SideOf(from), SideOf(to).begin());
      }
    }
  }
  return End("CopyBlocks");
}

grpc::Status FakeBlockService::ReadBlocks(grpc::ServerContext* /*context*/,
                                          const v1::ReadBlocksRequest* request,
                                          grpc::ServerWriter<v1::ReadBlocksResponse>* writer) {
  const MutexLock lock(mutex_);
  if (const grpc::Status status = Begin("ReadBlocks", 0); !status.ok()) return status;
  for (const uint32_t block : request->blocks().block_ids()) {
    for (uint32_t layer = 0; layer < layout_.layers.size(); ++layer) {
      if (request->layers_size() > 0 &&
          std::ranges::find(request->layers(), layer) == request->layers().end()) {
        continue;
      }
      for (const v1::Side side : {v1::SIDE_K, v1::SIDE_V}) {
        v1::ReadBlocksResponse response;
        v1::BlockPiece& piece = *response.mutable_piece();
        piece.set_block_id(block);
        piece.set_layer(layer);
        piece.set_side(side);
        const std::span<std::byte> bytes = SideOf(piece);
        piece.set_data(bytes.data(), bytes.size());
        writer->Write(response);
      }
    }
  }
  return End("ReadBlocks");
}

grpc::Status FakeBlockService::WriteBlocks(grpc::ServerContext* /*context*/,
                                           grpc::ServerReader<v1::WriteBlocksRequest>* reader,
                                           v1::WriteBlocksResponse* response) {
  const MutexLock lock(mutex_);
  if (const grpc::Status status = Begin("WriteBlocks", 0); !status.ok()) return status;
  v1::WriteBlocksRequest request;
  for (bool is_first = true; reader->Read(&request); is_first = false) {
    if (is_first != !request.session_id().empty()) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "the session's id is in the first message"};
    }
    const v1::BlockPiece& piece = request.piece();
    const std::span<std::byte> side = SideOf(piece);
    if (piece.offset_bytes() > side.size() ||
        piece.data().size() > side.size() - piece.offset_bytes()) {
      return {grpc::StatusCode::OUT_OF_RANGE, "the piece passes the end of its side"};
    }
    std::memcpy(side.data() + piece.offset_bytes(), piece.data().data(), piece.data().size());
    response->set_bytes(response->bytes() + piece.data().size());
  }
  return End("WriteBlocks");
}

}  // namespace kvpool::test
