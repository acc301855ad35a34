#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/fake_gpus.h"
#include "tests/unit/client/fixture.h"

namespace kvpool::client {

inline const std::string kFirstGpu = "GPU-11111111-0000-0000-0000-000000000000";
inline const std::string kSecondGpu = "GPU-22222222-0000-0000-0000-000000000000";
inline const std::string kEpoch = "epoch-1";

// A pool of one shard on each of two GPUs.
inline PoolSpec GpuSpec() {
  PoolSpec spec;
  spec.name = "p";
  spec.num_layers = 2;
  spec.num_kv_heads = 2;
  spec.head_dim = 64;
  spec.dtype = "bf16";
  spec.num_blocks = 8;
  spec.devices = {"cuda:" + kFirstGpu, "cuda:" + kSecondGpu};
  return spec;
}

// Moves what a fake daemon says of its memory to the GPUs.
inline void MoveToGpus(v1::OpenSessionResponse& response) {
  response.set_daemon_epoch(kEpoch);
  for (v1::MemoryRegion& region : *response.mutable_regions()) {
    region.set_cuda_ipc(std::string(64, static_cast<char>('a' + region.shard())));
    region.mutable_device()->set_kind(v1::DEVICE_KIND_CUDA);
    region.mutable_device()->set_uuid(region.shard() == 0 ? kFirstGpu : kSecondGpu);
  }
}

// A daemon whose pool is on GPUs, and a client that has `visible` of them.
struct GpuFixture {
  explicit GpuFixture(std::vector<std::string> visible = {kFirstGpu, kSecondGpu},
                      std::function<void(v1::OpenSessionResponse&)> edit = MoveToGpus)
      : gpus(std::move(visible)),
        base({.spec = GpuSpec(), .edit_opened = std::move(edit)}, &gpus) {}

  std::unique_ptr<Session> Open(SessionOptions options = {}) {
    return base.Open(std::move(options));
  }
  test::FakeDaemon& daemon() { return base.daemon; }

  test::FakeGpus gpus;
  Fixture base;
};

}  // namespace kvpool::client
