#include "tests/integration/hostile/floods.h"

#include <unistd.h>

#include <array>
#include <map>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>

#include "client/status_from_grpc.h"
#include "core/mutex.h"
#include "core/status_macros.h"
#include "kvpool/v1/block.grpc.pb.h"
#include "tests/integration/hostile/own_channel.h"
#include "tests/support/raw_client.h"

namespace kvpool::test {
namespace {

constexpr uint32_t kThreads = 4;
// On one connection; the daemon lets 1024 run at once.
constexpr uint32_t kWaitsPerConnection = 1'000;

// How calls ended, as many threads count it. Thread-safe.
class Tally {
 public:
  void Add(const std::string& said) {
    const MutexLock lock(mutex_);
    ++counts_[said];
  }
  std::string Text() const {
    const MutexLock lock(mutex_);
    return absl::StrJoin(counts_, " ", absl::PairFormatter("="));
  }
  uint32_t Count(const std::string& said) const {
    const MutexLock lock(mutex_);
    const auto it = counts_.find(said);
    return it == counts_.end() ? 0 : it->second;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, uint32_t> counts_ ABSL_GUARDED_BY(mutex_);
};

// Calls `work` with each of 0 to `count` - 1, on several threads, each with a connection.
template <typename Work>
void Share(const std::string& address, uint32_t count, const Work& work) {
  std::vector<std::jthread> threads;
  for (uint32_t first = 0; first < kThreads; ++first) {
    threads.emplace_back([&address, &work, first, count] {
      RawClient client(OwnChannel(address));
      for (uint32_t i = first; i < count; i += kThreads) work(client, i);
    });
  }
}

v1::Blocks BlockIds(uint32_t count) {
  v1::Blocks blocks;
  for (uint32_t i = 0; i < count; ++i) blocks.add_block_ids(i);
  return blocks;
}

absl::Status BadAlloc(RawClient& client, const std::string& session_id, uint32_t i) {
  v1::AllocRequest request;
  request.set_session_id(session_id);
  switch (i % 8) {
    case 0:
      request.set_count(0xFFFFFFFF);
      break;
    case 1:
      request.set_session_id("\xFF\xFE no text");
      break;
    case 2:
      request.set_session_id("line\nlevel=critical event=forged");
      break;
    case 3:
      request.set_session_id(std::string(32, 'f'));
      break;
    case 4:
      request.mutable_wait()->set_seconds(-1);
      break;
    case 5:
      request.mutable_release()->add_block_ids(0xFFFFFFFF);
      break;
    case 6:
      request.mutable_release()->add_block_ids(0);
      request.mutable_release()->add_generations(1);
      request.mutable_release()->add_generations(1);
      break;
    default:
      request.set_allow_partial(true);
      request.mutable_wait()->set_seconds(1);
      break;
  }
  return client.Alloc(request).status();
}

absl::Status BadOther(RawClient& client, const std::string& session_id, uint32_t i) {
  v1::DecRefRequest dec_ref;
  dec_ref.set_session_id(session_id);
  *dec_ref.mutable_blocks() = BlockIds(3);
  v1::OpenSessionRequest open;
  open.set_pool("p");
  switch (i % 4) {
    case 0:
      return client.DecRef(dec_ref).status();
    case 1:
      open.set_client_name("name\nlevel=critical event=forged");
      return client.OpenSession(open).status();
    case 2:
      open.set_pool("\x01\x02\nlevel=critical event=forged");
      return client.OpenSession(open).status();
    default:
      return client.GetBlock("p", 0xFFFFFFFF).status();
  }
}

}  // namespace

absl::StatusOr<std::string> FloodWithBadCalls(const std::string& address,
                                              const std::string& session_id, uint32_t count) {
  Tally tally;
  Share(address, count, [&](RawClient& client, uint32_t i) {
    // By the share of the four threads, so that each makes calls of every kind.
    const uint32_t kind = i / kThreads;
    tally.Add(Said(kind % 3 == 0 ? BadOther(client, session_id, kind / 3)
                                 : BadAlloc(client, session_id, kind)));
  });
  if (tally.Count("OK") > 0) return absl::InternalError(tally.Text());
  return tally.Text();
}

absl::Status FloodWithStreams(const std::string& address, const std::string& session_id,
                              uint32_t count) {
  Share(address, count, [&](RawClient& client, uint32_t i) {
    // Attached already, unknown, and none; broken off before, or after, the first answer.
    const std::array<std::string, 3> ids{session_id, std::string(32, '0'), "no id"};
    const auto stream = client.KeepAlive(ids[i / kThreads % ids.size()]);
    if (i % 2 == 0) stream->Next();
  });
  return absl::OkStatus();
}

absl::Status SendOversize(const std::string& address, const std::string& session_id) {
  RawClient client(OwnChannel(address));
  v1::OpenSessionRequest open;
  open.set_pool("p");
  open.set_pid(getpid());
  KVPOOL_ASSIGN_OR_RETURN(const v1::OpenSessionResponse opened, client.OpenSession(open));
  const v1::Limits& limits = opened.limits();
  KVPOOL_RETURN_IF_ERROR(client.CloseSession(opened.session_id()));

  // How each ends: an error of the daemon's own about what it holds, or gRPC's about its length.
  const auto expect = [](absl::string_view what, const absl::Status& status,
                         absl::string_view said) {
    if (Said(status) == std::string(said)) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(what, ": ", Said(status), " instead of ", said));
  };
  v1::IncRefRequest list;
  list.set_session_id(session_id);
  // Of the pool's blocks, none of which the session holds.
  for (uint32_t i = 0; i < limits.max_blocks_per_call(); ++i) {
    list.mutable_blocks()->add_block_ids(i % 2);
  }
  KVPOOL_RETURN_IF_ERROR(
      expect("longest list", client.IncRef(list), "FAILED_PRECONDITION NOT_HELD"));
  list.mutable_blocks()->add_block_ids(0);
  KVPOOL_RETURN_IF_ERROR(expect("longer list", client.IncRef(list), "INVALID_ARGUMENT"));
  v1::AllocRequest alloc;
  // A tag and a length of four bytes lie before the text.
  alloc.set_session_id(std::string(limits.max_message_bytes() - 5, 'x'));
  KVPOOL_RETURN_IF_ERROR(
      expect("longest message", client.Alloc(alloc).status(), "INVALID_ARGUMENT"));
  alloc.mutable_session_id()->push_back('x');
  KVPOOL_RETURN_IF_ERROR(
      expect("longer message", client.Alloc(alloc).status(), "RESOURCE_EXHAUSTED"));
  open.set_client_name(std::string(1 << 20, 'n'));
  KVPOOL_RETURN_IF_ERROR(expect("name", client.OpenSession(open).status(), "INVALID_ARGUMENT"));
  open.clear_client_name();
  open.set_model_id(std::string(1 << 20, 'm'));
  return expect("model", client.OpenSession(open).status(), "INVALID_ARGUMENT");
}

absl::StatusOr<std::string> OpenManySessions(const std::string& address, uint32_t count,
                                             std::vector<std::string>& session_ids) {
  Tally tally;
  Mutex mutex;
  Share(address, count, [&](RawClient& client, uint32_t /*i*/) {
    v1::OpenSessionRequest request;
    request.set_pool("p");
    request.set_pid(getpid());
    request.mutable_ttl()->set_seconds(3600);
    const auto opened = client.OpenSession(request);
    if (!opened.ok()) return tally.Add(Said(opened));
    const MutexLock lock(mutex);
    session_ids.push_back(opened->session_id());
  });
  return absl::StrCat("refused=", count - session_ids.size(), " ", tally.Text());
}

absl::Status CloseSessions(const std::string& address,
                           const std::vector<std::string>& session_ids) {
  Tally tally;
  Share(address, static_cast<uint32_t>(session_ids.size()), [&](RawClient& client, uint32_t i) {
    tally.Add(Said(client.CloseSession(session_ids[i])));
  });
  if (tally.Count("OK") == session_ids.size()) return absl::OkStatus();
  return absl::InternalError(tally.Text());
}

absl::StatusOr<std::string> WaitManyTimes(const std::string& address, const std::string& session_id,
                                          uint32_t count, uint32_t refused_count) {
  struct Wait {
    grpc::ClientContext context;
    v1::AllocResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::AllocResponse>> reader;
  };
  v1::AllocRequest request;
  request.set_session_id(session_id);
  request.set_count(1);
  request.mutable_wait()->set_seconds(3600);  // Cut to what the daemon lets wait.
  // Never taken down: the process ends with all of it in the air.
  auto& queue = *new grpc::CompletionQueue();
  RawClient client(OwnChannel(address));
  Tally tally;
  uint32_t ended_count = 0;
  const auto take = [&](std::chrono::system_clock::time_point deadline) {
    void* tag = nullptr;
    bool ok = false;
    if (queue.AsyncNext(&tag, &ok, deadline) != grpc::CompletionQueue::GOT_EVENT) return;
    tally.Add(Said(client::StatusFromGrpc(static_cast<Wait*>(tag)->status)));
    ++ended_count;
  };
  std::unique_ptr<v1::BlockService::Stub> stub;
  for (uint32_t i = 0; i < count; ++i) {
    if (i % kWaitsPerConnection == 0) {
      // What waits is counted by its time: it is not to lie before the daemon unread.
      KVPOOL_RETURN_IF_ERROR(client.GetDaemon().status());
      stub = v1::BlockService::NewStub(OwnChannel(address));
    }
    auto* wait = new Wait();
    wait->reader = stub->AsyncAlloc(&wait->context, request, &queue);
    wait->reader->Finish(&wait->response, &wait->status, wait);
    // Also what keeps the connections answering the daemon's pings.
    take(std::chrono::system_clock::now());
  }
  while (ended_count < refused_count) {
    take(std::chrono::system_clock::now() + std::chrono::seconds(1));
  }
  return tally.Text();
}

}  // namespace kvpool::test
