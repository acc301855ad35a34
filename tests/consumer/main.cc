// Takes two blocks of pool "p", writes into one through its mapping, and reads it back through the
// daemon: consumer SOCKET.
#include <kvpool/client/client.h>
#include <kvpool/client/side_tensor.h>
#include <kvpool/client/visible_gpus.h>
#include <kvpool/core/error.h>

#include <algorithm>
#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto client = kvpool::client::Client::Create({.socket = argv[1]});
  auto session = client->OpenSession({.pool = "p", .client_name = "consumer"});
  if (!session.ok()) return 3;
  auto blocks = (*session)->Alloc(2);
  auto mapping = (*session)->Map();
  if (!blocks.ok() || !mapping.ok()) return 4;

  const kvpool::BlockRef block = (*blocks)[0].ref();
  std::ranges::fill(mapping->mutable_k(/*layer=*/1, block.block), std::byte{42});
  bool is_right = false;
  const absl::Status read = (*session)->ReadBlocks(
      {&block, 1}, {}, /*shard=*/0, [&](const kvpool::client::BlockPiece& piece) {
        if (piece.layer == 1 && piece.side == kvpool::client::BlockSide::kK) {
          is_right = std::ranges::count(piece.data, std::byte{42}) ==
                     static_cast<std::ptrdiff_t>(piece.data.size());
        }
        return absl::OkStatus();
      });
  if (!read.ok() || !is_right) return 5;

  // Layer 0 is in no format of tensors, and the bytes of block 0 are its first row.
  const auto tensor = mapping->k_tensor(/*layer=*/0);
  if (mapping->is_on_gpu() || !tensor.ok() || tensor->data != mapping->k_ptr(0)) return 7;
  // What the machine has, if anything: the driver is found at run time.
  const auto gpus = kvpool::client::VisibleGpus();
  if (!gpus.ok() && gpus.status().code() != absl::StatusCode::kFailedPrecondition) return 8;

  const absl::Status full = (*session)->Alloc(1000).status();
  std::printf("%s\n", kvpool::ReasonName(kvpool::GetErrorDetail(full).reason).data());
  return (*session)->Close().ok() ? 0 : 6;
}
