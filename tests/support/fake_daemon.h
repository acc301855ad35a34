#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "core/ids.h"
#include "core/layout/pool_layout.h"
#include "kvpool/v1/block.pb.h"
#include "tests/support/fake_fd_socket.h"

namespace kvpool::test {

class FakeBlockService;

// A daemon of one pool "p" on host memory, as small as can be, for tests of what speaks to one: a
// real gRPC server on a unix socket, its fd socket beside it. It counts each session's references
// and remembers keyed answers for ever; what is published is findable until it is evicted by a
// call. It knows no claims, seals, quotas or waiting. It loses answers, refuses and ends streams on
// demand, and tells what it has seen. Thread-safe.
class FakeDaemon {
 public:
  struct Options {
    PoolSpec spec{};
    // The memory as it is given out.
    bool is_sealed = true;
    uint64_t extra_bytes = 0;
    uint32_t max_blocks_per_call = 65'536;
    // Changes OpenSession's answer before it is given: its regions, say, which are of host memory.
    std::function<void(v1::OpenSessionResponse&)> edit_opened{};
  };

  // Of shard 0; the next shards' follow. All shards are given the same memory.
  static constexpr uint64_t kFirstRegionId = 7;

  // Requires a spec that PlanPool accepts, or one left empty: a small one. The socket lies in
  // `directory`.
  FakeDaemon(const std::string& directory, Options options);
  explicit FakeDaemon(const std::string& directory);
  ~FakeDaemon();

  // "unix:" and the path.
  const std::string& socket() const { return socket_; }
  const PoolLayout& layout() const;
  std::span<std::byte> memory() const;

  // The next `count` calls of a method ("Alloc") take effect, and their answer is lost.
  void LoseAnswers(const std::string& method, int count);
  // The next call of a method is refused so, without effect.
  void RefuseNext(const std::string& method, const absl::Status& status);
  // The next call of a method is answered only when Resume is called.
  void HoldNext(const std::string& method);
  void Resume();
  // Waits until a call is held.
  void WaitUntilHeld();
  // Sends a notice on every stream.
  void Notify(const v1::Notice& notice);
  // Ends every stream, and its session.
  void EndStreams(const absl::Status& status);
  // Streams from now on are not told that they are attached.
  void LeaveUnattached();
  void set_fd_answer(FakeFdSocket::Answer answer);

  // The keys of a method's calls so far, refused ones included.
  std::vector<uint64_t> Keys(const std::string& method) const;
  size_t CallCount(const std::string& method) const;
  // Of a block, by all sessions.
  uint32_t ReferenceCount(BlockId block) const;
  uint32_t FreeCount() const;
  uint32_t FindableCount() const;
  // How many references were given back as done with.
  uint32_t DoneCount() const;
  size_t SessionCount() const;
  // The last OpenSession.
  v1::OpenSessionRequest LastOpen() const;
  // Of the last call that had a prefix.
  v1::Prefix LastPrefix() const;
  // The regions that were asked for on the fd socket, in order.
  std::vector<uint64_t> RequestedRegions() const;

 private:
  struct Running;  // The server; in the .cc, so that few files include gRPC.

  const std::string socket_;
  std::unique_ptr<FakeBlockService> service_;
  std::unique_ptr<Running> running_;
};

}  // namespace kvpool::test
