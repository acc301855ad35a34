#include "deploy/demo/driver.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "client/socket_probe.h"
#include "client/status_from_grpc.h"
#include "core/status_macros.h"
#include "deploy/demo/worker_process.h"
#include "kvpool/v1/inspect.grpc.pb.h"

namespace kvpool::demo {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto kAnswerLimit = std::chrono::seconds(5);
constexpr auto kReclaimLimit = std::chrono::seconds(10);

// What the table at the end shows.
struct Figures {
  std::string published, bytes_shared, reused, heads, error, prefill_calls, decode_calls, reclaimed;
  uint64_t bytes_copied = 0;
  double reclaim_ms = 0;
};

class PoolWatcher {
 public:
  explicit PoolWatcher(const WorkerOptions& options)
      : channel_(grpc::CreateChannel(options.socket, grpc::InsecureChannelCredentials())),
        stub_(v1::InspectService::NewStub(channel_)),
        pool_(options.pool) {}

  // Waits until the daemon is connected to, or says why it cannot be.
  absl::Status Connect(const std::string& socket) {
    return client::WaitForDaemon(*channel_, socket, kAnswerLimit);
  }

  absl::StatusOr<v1::PoolStatus> Get() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kAnswerLimit);
    v1::GetPoolRequest request;
    request.set_name(pool_);
    v1::GetPoolResponse response;
    const grpc::Status status = stub_->GetPool(&context, request, &response);
    if (!status.ok()) return client::StatusFromGrpc(status);
    return response.pool();
  }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::InspectService::Stub> stub_;
  const std::string pool_;
};

std::vector<std::string> Arguments(const WorkerOptions& options, const std::string& role) {
  std::vector<std::string> arguments = {role, "--socket=" + options.socket,
                                        "--pool=" + options.pool, "--text=" + options.text};
  if (options.flip_byte) arguments.emplace_back("--flip_byte");
  return arguments;
}

absl::Status Broken(const char* worker) {
  return absl::InternalError(absl::StrCat("the ", worker, " worker failed"));
}

uint64_t Number(const std::optional<std::string>& text) {
  return std::strtoull(text.value_or("0").c_str(), nullptr, 10);
}

// What one worker computed and published, others find by the prompt alone, when it is long gone.
absl::Status ShareBlocks(const WorkerOptions& options, PoolWatcher& pool, Figures& figures) {
  WorkerProcess prefill(Arguments(options, "prefill"));
  figures.published = prefill.ReadFigure("published").value_or("");
  figures.bytes_shared = prefill.ReadFigure("bytes").value_or("");
  figures.prefill_calls = prefill.ReadFigure("calls").value_or("");
  figures.bytes_copied += Number(prefill.ReadFigure("copied"));
  if (!prefill.Succeeded()) return Broken("prefill");
  std::printf("prefill (pid %d) wrote %s blocks through its mapping and published them\n",
              prefill.pid(), figures.published.c_str());
  KVPOOL_ASSIGN_OR_RETURN(const v1::PoolStatus left, pool.Get());
  std::printf("prefill has closed its session and is gone; the pool has %u cached\n",
              left.cached_blocks());

  WorkerProcess first(Arguments(options, "decode"));
  WorkerProcess second(Arguments(options, "decode"));
  for (WorkerProcess* const decode : {&first, &second}) {
    figures.reused = decode->ReadFigure("reused").value_or("");
    const std::string fresh = decode->ReadFigure("new").value_or("");
    figures.heads = decode->ReadFigure("heads").value_or("");
    figures.error = decode->ReadFigure("error").value_or("");
    const std::string fetched = decode->ReadFigure("fetched").value_or("");
    figures.decode_calls = decode->ReadFigure("calls").value_or("");
    figures.bytes_copied += Number(decode->ReadFigure("copied"));
    std::printf("decode  (pid %d) acquired the prompt: %s blocks found, %s new\n", decode->pid(),
                figures.reused.c_str(), fresh.c_str());
    if (fetched == "0") {
      std::printf("decode  (pid %d) ran attention in place: largest relative error %s\n",
                  decode->pid(), figures.error.c_str());
    } else {
      std::printf(
          "decode  (pid %d) has no kernels: it copied %s bytes from the GPU, and ran "
          "attention: largest relative error %s\n",
          decode->pid(), fetched.c_str(), figures.error.c_str());
    }
    if (!decode->Succeeded()) return Broken("decode");
  }
  return absl::OkStatus();
}

// A worker dies by SIGKILL while it writes; its blocks come back.
absl::Status KillWriter(const WorkerOptions& options, PoolWatcher& pool, Figures& figures) {
  WorkerProcess victim(Arguments(options, "victim"));
  const std::optional<std::string> count = victim.ReadFigure("writing");
  if (!count.has_value()) return Broken("last");
  figures.reclaimed = *count;
  KVPOOL_ASSIGN_OR_RETURN(const v1::PoolStatus before, pool.Get());
  std::printf("another worker (pid %d) writes to %s blocks; the pool has %u held, %u cached\n",
              victim.pid(), count->c_str(), before.held_blocks(), before.cached_blocks());

  victim.Kill();
  const auto gone = SteadyClock::now();
  while (true) {
    KVPOOL_ASSIGN_OR_RETURN(const v1::PoolStatus now, pool.Get());
    if (now.free_blocks() + now.cached_blocks() == now.layout().num_blocks()) break;
    if (SteadyClock::now() - gone > kReclaimLimit) {
      return absl::InternalError("the killed worker's blocks did not come back");
    }
    std::this_thread::yield();
  }
  figures.reclaim_ms = std::chrono::duration<double, std::milli>(SteadyClock::now() - gone).count();
  KVPOOL_ASSIGN_OR_RETURN(const v1::PoolStatus after, pool.Get());
  std::printf("killed with SIGKILL; the pool has %u held, %u quarantined, %u cached, %u free\n",
              after.held_blocks(), after.quarantined_blocks(), after.cached_blocks(),
              after.free_blocks());
  return absl::OkStatus();
}

void PrintTable(const Figures& figures) {
  const auto row = [](const char* name, const std::string& value) {
    std::printf("  %-46s %14s\n", name, value.c_str());
  };
  std::printf("\n");
  row("blocks published by prefill", figures.published);
  row("bytes shared", figures.bytes_shared);
  row("blocks reused by each decode worker", figures.reused);
  row("bytes copied by the daemon for it", absl::StrCat(figures.bytes_copied));
  row("attention heads checked", figures.heads);
  row("largest relative error", figures.error);
  row("calls made by prefill", figures.prefill_calls);
  row("calls made by decode", figures.decode_calls);
  row("blocks of the killed worker", figures.reclaimed);
  char reclaim[32];
  std::snprintf(reclaim, sizeof(reclaim), "%.2f ms", figures.reclaim_ms);
  row("time to reclaim them, from its end", reclaim);
}

}  // namespace

absl::Status RunDemo(const WorkerOptions& options) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Figures figures;
  PoolWatcher pool(options);
  KVPOOL_RETURN_IF_ERROR(pool.Connect(options.socket));
  KVPOOL_ASSIGN_OR_RETURN(const v1::PoolStatus found, pool.Get());
  if (options.text.size() < found.layout().spec().block_size()) {
    return absl::InvalidArgumentError(absl::StrCat("the text has ", options.text.size(),
                                                   " bytes, a token each, and a block takes ",
                                                   found.layout().spec().block_size()));
  }
  KVPOOL_RETURN_IF_ERROR(ShareBlocks(options, pool, figures));
  KVPOOL_RETURN_IF_ERROR(KillWriter(options, pool, figures));
  PrintTable(figures);
  return absl::OkStatus();
}

}  // namespace kvpool::demo
