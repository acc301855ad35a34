#include "deploy/demo/workers.h"

#include <algorithm>
#include <deque>
#include <iostream>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/client.h"
#include "client/grpc_transport.h"
#include "core/status_macros.h"
#include "deploy/demo/attention.h"
#include "deploy/demo/counting_transport.h"
#include "deploy/demo/gpu_copies.h"
#include "deploy/demo/toy_model.h"

namespace kvpool::demo {
namespace {

constexpr uint32_t kVictimBlocks = 16;
constexpr double kTolerance = 1e-3;

// A session with its memory mapped, and a count of the calls that it makes.
struct Worker {
  std::shared_ptr<CountingTransport> transport;
  std::unique_ptr<client::Session> session;
  std::unique_ptr<client::Mapping> mapping;
  uint32_t block_size = 0;
  uint64_t fetched_bytes = 0;  // From a GPU to here.
};

absl::StatusOr<Worker> Connect(const WorkerOptions& options, const char* name,
                               client::Mapping::Access access) {
  client::ClientOptions client_options;
  client_options.socket = options.socket;
  Worker worker;
  worker.transport = std::make_shared<CountingTransport>(client::MakeGrpcTransport(
      options.socket, client_options.ping_interval, client_options.ping_timeout));
  client_options.transport = worker.transport;
  KVPOOL_ASSIGN_OR_RETURN(client::Client client, client::Client::Create(client_options));
  KVPOOL_ASSIGN_OR_RETURN(
      worker.session,
      client.OpenSession({.pool = options.pool, .client_name = name, .model_id = "toy-llama"}));
  const PoolLayout& layout = worker.session->layout();
  const uint64_t side_bytes = uint64_t{*layout.spec.block_size} * ToyModel::kKvElements * 2;
  if (layout.layers.size() != ToyModel::kLayers || layout.layers[0].k.block_bytes != side_bytes ||
      layout.layers[0].k.dtype != Dtype::kBf16) {
    return absl::FailedPreconditionError(
        absl::StrCat("pool ", options.pool, " has not the model's geometry"));
  }
  worker.block_size = *layout.spec.block_size;
  KVPOOL_ASSIGN_OR_RETURN(client::Mapping mapping, worker.session->Map(/*shard=*/0, access));
  worker.mapping = std::make_unique<client::Mapping>(std::move(mapping));
  return worker;
}

std::span<Bf16> AsBf16(std::span<std::byte> bytes) {
  return {reinterpret_cast<Bf16*>(bytes.data()), bytes.size() / sizeof(Bf16)};
}

std::span<const Bf16> AsBf16(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const Bf16*>(bytes.data()), bytes.size() / sizeof(Bf16)};
}

// Where a block's side begins on a GPU.
std::byte* GpuAddress(const Worker& worker, uint32_t layer, bool is_k, BlockId block) {
  const client::Mapping& mapping = *worker.mapping;
  const SideLayout& side = mapping.layout().layers[layer].k;  // V's is alike, as Connect saw.
  void* const first = is_k ? mapping.k_ptr(layer) : mapping.v_ptr(layer);
  return static_cast<std::byte*>(first) + ToIndex(block) * side.stride_bytes;
}

// A side's bytes on a GPU, copied to the host.
absl::StatusOr<std::vector<std::byte>> Fetch(Worker& worker, uint32_t layer, bool is_k,
                                             BlockId block) {
  std::vector<std::byte> bytes(worker.mapping->layout().layers[layer].k.block_bytes);
  KVPOOL_RETURN_IF_ERROR(CopyFromGpu(GpuAddress(worker, layer, is_k, block), bytes));
  worker.fetched_bytes += bytes.size();
  return bytes;
}

// Lets `write` change a side's bytes: in place, or, on a GPU, in a copy that is put in their place,
// since this worker has no kernels.
template <typename Write>
absl::Status ChangeSide(Worker& worker, uint32_t layer, bool is_k, BlockId block, Write write) {
  client::Mapping& mapping = *worker.mapping;
  if (!mapping.is_on_gpu()) {
    write(is_k ? mapping.mutable_k(layer, block) : mapping.mutable_v(layer, block));
    return absl::OkStatus();
  }
  KVPOOL_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, Fetch(worker, layer, is_k, block));
  write(std::span(bytes));
  return CopyToGpu(bytes, GpuAddress(worker, layer, is_k, block));
}

void Say(const std::string& line) { std::cout << line << std::endl; }

// What the daemon did for the worker, read off its own connection.
void SayCosts(const Worker& worker) {
  const uint64_t block_bytes = worker.session->layout().block_bytes;
  Say(absl::StrCat("fetched ", worker.fetched_bytes));
  Say(absl::StrCat("calls ", worker.transport->calls()));
  Say(absl::StrCat("copied ", worker.transport->bytes_carried() +
                                  worker.transport->blocks_copied() * block_bytes));
}

// K and V of every whole block of the text, written where attention kernels would put them.
absl::Status WritePrompt(const ToyModel& model, const WorkerOptions& options, Worker& worker,
                         const std::vector<client::BlockLease>& blocks) {
  for (uint32_t layer = 0; layer < ToyModel::kLayers; ++layer) {
    for (size_t index = 0; index < blocks.size(); ++index) {
      for (const bool is_k : {true, false}) {
        const auto compute = [&](std::span<std::byte> side) {
          for (uint32_t slot = 0; slot < worker.block_size; ++slot) {
            const auto position = static_cast<uint32_t>(index * worker.block_size + slot);
            const auto token = static_cast<uint8_t>(options.text[position]);
            const auto values =
                AsBf16(side).subspan(size_t{slot} * ToyModel::kKvElements, ToyModel::kKvElements);
            if (is_k) {
              model.ComputeK(layer, token, position, values);
            } else {
              model.ComputeV(layer, token, values);
            }
          }
        };
        KVPOOL_RETURN_IF_ERROR(ChangeSide(worker, layer, is_k, blocks[index].id(), compute));
      }
    }
  }
  return absl::OkStatus();
}

// The tokens of the text's first `blocks` blocks: its bytes.
std::vector<uint32_t> TokensOf(const WorkerOptions& options, size_t blocks, uint32_t block_size) {
  std::vector<uint32_t> tokens;
  for (const char byte : options.text.substr(0, blocks * block_size)) {
    tokens.push_back(static_cast<uint8_t>(byte));
  }
  return tokens;
}

// The largest error of any head of one layer: attention over the blocks in place against the
// same over K and V that are computed apart and lie in one piece.
absl::StatusOr<double> CheckLayer(const ToyModel& model, const WorkerOptions& options,
                                  Worker& worker, std::span<const client::BlockLease> blocks,
                                  uint32_t layer) {
  const auto tokens = static_cast<uint32_t>(blocks.size() * worker.block_size);
  const auto last = static_cast<uint8_t>(options.text[tokens - 1]);
  const std::vector<float> query = model.ComputeQuery(layer, last, tokens - 1);

  std::vector<BlockView> views;
  std::deque<std::vector<std::byte>> copies;  // Of what is on a GPU.
  for (const client::BlockLease& block : blocks) {
    if (worker.mapping->is_on_gpu()) {
      for (const bool is_k : {true, false}) {
        KVPOOL_ASSIGN_OR_RETURN(copies.emplace_back(), Fetch(worker, layer, is_k, block.id()));
      }
      views.push_back({.k = AsBf16(std::span<const std::byte>(copies.end()[-2])),
                       .v = AsBf16(std::span<const std::byte>(copies.back()))});
      continue;
    }
    views.push_back({.k = AsBf16(worker.mapping->k(layer, block.id())),
                     .v = AsBf16(worker.mapping->v(layer, block.id()))});
  }
  std::vector<Bf16> k(size_t{tokens} * ToyModel::kKvElements);
  std::vector<Bf16> v(k.size());
  for (uint32_t position = 0; position < tokens; ++position) {
    const size_t at = size_t{position} * ToyModel::kKvElements;
    const auto token = static_cast<uint8_t>(options.text[position]);
    model.ComputeK(layer, token, position, std::span(k).subspan(at, ToyModel::kKvElements));
    model.ComputeV(layer, token, std::span(v).subspan(at, ToyModel::kKvElements));
  }
  return RelativeError(PagedAttention(query, views), ContiguousAttention(query, k, v));
}

}  // namespace

absl::Status RunPrefill(const WorkerOptions& options) {
  KVPOOL_ASSIGN_OR_RETURN(Worker worker,
                          Connect(options, "prefill", client::Mapping::Access::kReadWrite));
  const auto count = static_cast<uint32_t>(options.text.size() / worker.block_size);
  KVPOOL_ASSIGN_OR_RETURN(std::vector<client::BlockLease> blocks, worker.session->Alloc(count));
  const ToyModel model;
  KVPOOL_RETURN_IF_ERROR(WritePrompt(model, options, worker, blocks));
  if (options.flip_byte) {
    const uint32_t layer = ToyModel::kLayers / 2;
    KVPOOL_RETURN_IF_ERROR(
        ChangeSide(worker, layer, /*is_k=*/false, blocks[count / 2].id(),
                   [](std::span<std::byte> v) { v[v.size() / 2 + 1] ^= std::byte{0xFF}; }));
  }
  std::vector<BlockRef> written;
  for (const client::BlockLease& block : blocks) written.push_back(block.ref());
  const std::vector<uint32_t> tokens = TokensOf(options, count, worker.block_size);
  KVPOOL_ASSIGN_OR_RETURN(const client::Published published,
                          worker.session->Publish({.tokens = tokens}, written));
  Say(absl::StrCat("published ", published.count));
  Say(absl::StrCat("bytes ", published.count * worker.session->layout().block_bytes));
  blocks.clear();
  KVPOOL_RETURN_IF_ERROR(worker.session->Flush());
  KVPOOL_RETURN_IF_ERROR(worker.session->Close());
  SayCosts(worker);
  return absl::OkStatus();
}

absl::Status RunDecode(const WorkerOptions& options) {
  KVPOOL_ASSIGN_OR_RETURN(Worker worker,
                          Connect(options, "decode", client::Mapping::Access::kReadOnly));
  const size_t count = options.text.size() / worker.block_size;
  const std::vector<uint32_t> tokens = TokensOf(options, count, worker.block_size);
  // The prompt, and a block for what comes after it.
  KVPOOL_ASSIGN_OR_RETURN(
      const client::AcquiredBlocks acquired,
      worker.session->Acquire({.tokens = tokens}, static_cast<uint32_t>(count) + 1));
  Say(absl::StrCat("reused ", acquired.matched_blocks));
  Say(absl::StrCat("new ", acquired.blocks.size() - acquired.matched_blocks));
  if (acquired.matched_blocks != count) {
    return absl::NotFoundError(absl::StrCat("of ", count, " blocks of the prompt ",
                                            acquired.matched_blocks, " are found"));
  }
  const auto blocks = std::span(acquired.blocks).first(count);

  const ToyModel model;
  double error = 0;
  for (uint32_t layer = 0; layer < ToyModel::kLayers; ++layer) {
    KVPOOL_ASSIGN_OR_RETURN(const double of_layer,
                            CheckLayer(model, options, worker, blocks, layer));
    error = std::max(error, of_layer);
  }
  Say(absl::StrCat("heads ", ToyModel::kLayers * ToyModel::kQueryHeads));
  Say(absl::StrCat("error ", error));
  KVPOOL_RETURN_IF_ERROR(worker.session->Close());
  SayCosts(worker);
  if (!(error <= kTolerance)) {
    return absl::InternalError(absl::StrCat("attention over the shared blocks is off by ", error,
                                            ", relative; ", kTolerance, " is allowed"));
  }
  return absl::OkStatus();
}

absl::Status RunVictim(const WorkerOptions& options) {
  KVPOOL_ASSIGN_OR_RETURN(Worker worker,
                          Connect(options, "victim", client::Mapping::Access::kReadWrite));
  KVPOOL_ASSIGN_OR_RETURN(const std::vector<client::BlockLease> blocks,
                          worker.session->Alloc(kVictimBlocks));
  Say(absl::StrCat("writing ", kVictimBlocks));
  for (uint8_t value = 0;; ++value) {
    for (const client::BlockLease& block : blocks) {
      for (uint32_t layer = 0; layer < ToyModel::kLayers; ++layer) {
        KVPOOL_RETURN_IF_ERROR(ChangeSide(
            worker, layer, /*is_k=*/true, block.id(),
            [value](std::span<std::byte> k) { std::ranges::fill(k, std::byte{value}); }));
      }
    }
  }
}

}  // namespace kvpool::demo
