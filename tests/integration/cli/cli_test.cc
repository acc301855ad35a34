// kvpoolctl against a real daemon: what it prints, and what it exits with.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <google/protobuf/util/json_util.h>

#include "tests/integration/support/node.h"
#include "tests/integration/support/worker.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"

namespace kvpool::test {
namespace {

constexpr int kOk = 0;
constexpr int kRefused = 1;
constexpr int kUsage = 2;
constexpr int kUnreachable = 3;

struct Answer {
  int code = 0;
  std::string out;
  std::string err;
};

// kvpoolctl, asked at one socket.
class Ctl {
 public:
  explicit Ctl(std::string socket, std::optional<uid_t> uid = std::nullopt)
      : socket_(std::move(socket)), uid_(uid) {}

  Answer operator()(std::vector<std::string> arguments) const {
    const TempDir directory;
    arguments.insert(arguments.begin(), KVPOOL_KVPOOLCTL);
    ChildProcess process({.arguments = std::move(arguments),
                          .environment = {"KVPOOL_SOCKET=" + socket_},
                          .stderr_path = directory.File("stderr"),
                          .uid = uid_});
    Answer answer;
    answer.out = process.ReadAll();
    answer.code = process.Wait();
    std::stringstream text;
    text << std::ifstream(directory.File("stderr")).rdbuf();
    answer.err = text.str();
    return answer;
  }

 private:
  const std::string socket_;
  const std::optional<uid_t> uid_;
};

TEST_CASE("kvpoolctl says that a socket is not its user's, and not that no daemon is there") {
  if (geteuid() != 0) return;  // Who is not root is nobody else either.
  constexpr uid_t kNobody = 65'534;
  Node node(/*num_blocks=*/4);
  std::filesystem::permissions(
      node.daemon().directory().path(),
      std::filesystem::perms::owner_all | std::filesystem::perms::others_exec);
  // Only the daemon's user and group may enter the socket's directory.
  const Answer answer = Ctl(node.daemon().operator_socket(), kNobody)({"health"});
  CHECK(answer.code == kRefused);
  CHECK(absl::StrContains(answer.err, "PERMISSION_DENIED: you may not connect to unix:"));
  node.CheckAllIsBack();
}

template <typename Message>
Message FromJson(const Answer& answer) {
  CAPTURE(answer.out, answer.err);
  CHECK(answer.code == kOk);
  CHECK(answer.err.empty());
  Message message;
  CHECK(google::protobuf::util::JsonStringToMessage(answer.out, &message).ok());
  return message;
}

bool Shows(const Answer& answer, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (absl::StrContains(answer.out, text)) continue;
    UNSCOPED_INFO("lacks \"" << text << "\":\n" << answer.out << answer.err);
    return false;
  }
  return answer.code == kOk && answer.err.empty();
}

TEST_CASE("kvpoolctl shows the daemon, its pools, sessions and blocks") {
  Node node({.pools_json = "[" + PoolJson("p", 8) + ", " + PoolJson("spare", 4) + "]",
             .environment = {"KVPOOL_KV_TRACE=1"}});
  const Ctl ctl(node.daemon().operator_socket());
  Worker worker(node.daemon().worker_socket(), "p", "decode-0");
  REQUIRE(absl::StartsWith(worker.Ask("alloc 3"), "ok 0:"));
  const std::string id = worker.Ask("id").substr(3);

  SECTION("status") {
    CHECK(Shows(ctl({"status"}), {"serving", "host", "spare", "tracing", "on"}));
    const auto daemon = FromJson<v1::GetDaemonResponse>(ctl({"status", "--json"}));
    CHECK(daemon.daemon_epoch() == node.eyes().GetDaemon()->daemon_epoch());
    CHECK(daemon.block_tracing());
  }
  SECTION("health") {
    CHECK(Shows(ctl({"health"}), {"SERVING\n"}));
    CHECK(FromJson<grpc::health::v1::HealthCheckResponse>(ctl({"health", "--json"})).status() ==
          grpc::health::v1::HealthCheckResponse::SERVING);
  }
  SECTION("pools") {
    CHECK(Shows(ctl({"pools"}), {"p ", "spare"}));
    CHECK(Shows(ctl({"pools", "p"}), {"bf16", "fingerprint"}));
    CHECK(FromJson<v1::ListPoolsResponse>(ctl({"pools", "--json"})).pools_size() == 2);
    const auto pool = FromJson<v1::GetPoolResponse>(ctl({"pools", "p", "--json"})).pool();
    CHECK(pool.held_blocks() == 3);
    CHECK(pool.free_blocks() == 5);
  }
  SECTION("sessions") {
    CHECK(Shows(ctl({"sessions"}), {id.substr(0, 8), "decode-0", "attached"}));
    CHECK_FALSE(absl::StrContains(ctl({"sessions"}).out, id));
    const auto none = FromJson<v1::ListSessionsResponse>(ctl({"sessions", "spare", "--json"}));
    CHECK(none.sessions().empty());
    const auto all = FromJson<v1::ListSessionsResponse>(ctl({"sessions", "p", "--json"}));
    CHECK(all.sessions(0).pid() == worker.pid());
    CHECK(all.sessions(0).references() == 3);
  }
  SECTION("session") {
    CHECK(Shows(ctl({"session", id.substr(0, 8)}), {"decode-0", "attached", "0-2"}));
    const auto session = FromJson<v1::GetSessionResponse>(ctl({"session", id, "--json"})).session();
    CHECK(session.block_ids_size() == 3);
    CHECK(session.state() == v1::SessionStatus::STATE_ATTACHED);
  }
  SECTION("block") {
    CHECK(Shows(ctl({"block", "p", "1"}), {"held", "decode-0", "alloc"}));
    const auto block = FromJson<v1::GetBlockResponse>(ctl({"block", "p", "1", "--json"})).block();
    CHECK(block.ref_count() == 1);
    CHECK(block.history_size() == 1);
  }
  SECTION("blocks") {
    CHECK(Shows(ctl({"blocks", "p"}), {"held", "free"}));
    const auto blocks =
        FromJson<v1::ListBlocksResponse>(ctl({"blocks", "p", "--first=2", "--count=3", "--json"}));
    REQUIRE(blocks.blocks_size() == 3);
    CHECK(blocks.blocks(0).state() == v1::BlockStatus::STATE_HELD);
    CHECK(blocks.blocks(1).state() == v1::BlockStatus::STATE_FREE);
  }
  SECTION("checksum") {
    REQUIRE(worker.Ask("write 255") == "ok");  // NaNs.
    CHECK(Shows(ctl({"checksum", "p", "0-2", "--boundary=1"}), {"prefix", "suffix"}));
    const auto layers = FromJson<v1::ChecksumLayersResponse>(
        ctl({"checksum", "p", "0-2", "--boundary=1", "--json"}));
    REQUIRE(layers.layers_size() == 2);
    CHECK(layers.layers(0).prefix_k().nan_count() == 512);
    CHECK(layers.layers(1).suffix_v().nan_count() == 2 * 512);
    const auto blocks =
        FromJson<v1::ChecksumBlocksResponse>(ctl({"checksum", "p", "2,0", "--layer=1", "--json"}));
    REQUIRE(blocks.blocks_size() == 2);
    CHECK(blocks.blocks(0).block_id() == 2);
    CHECK(blocks.blocks(0).k().crc32c() == blocks.blocks(1).v().crc32c());
  }
  CHECK(worker.Leave() == "ok");
  node.CheckAllIsBack();
}

TEST_CASE("kvpoolctl creates and deletes pools and ends sessions") {
  Node node(/*num_blocks=*/8);
  const Ctl ctl(node.daemon().operator_socket());
  CHECK(Shows(ctl({"create-pool", "--spec=" + PoolJson("made", 4)}), {"created pool made", "4"}));
  CHECK(FromJson<v1::CreatePoolResponse>(
            ctl({"create-pool", "--spec=" + PoolJson("second", 4), "--json"}))
            .pool()
            .free_blocks() == 4);
  CHECK(ctl({"create-pool", "--spec=" + PoolJson("made", 4)}).code == kRefused);
  CHECK(Shows(ctl({"delete-pool", "second"}), {"deleted pool second"}));

  Worker worker(node.daemon().worker_socket(), "made");
  REQUIRE(absl::StartsWith(worker.Ask("alloc 2"), "ok "));
  const std::string id = worker.Ask("id").substr(3);
  const Answer in_use = ctl({"delete-pool", "made"});
  CHECK(in_use.code == kRefused);
  CHECK(absl::StrContains(in_use.err, "made"));
  CHECK(ctl({"terminate", id.substr(0, 7)}).code == kRefused);
  CHECK(Shows(ctl({"terminate", id.substr(0, 8)}),
              {absl::StrCat("terminated session ", id.substr(0, 8), " of pool made"),
               absl::StrCat("pid ", worker.pid())}));
  CHECK(Eventually([&] { return worker.Ask("alive") != "ok"; }));
  CHECK(node.Pool("made").quarantined_blocks() == 2);
  CHECK(Shows(ctl({"terminate", id.substr(0, 8), "--release_claims"}), {"claims released"}));
  CHECK(node.Pool("made").free_blocks() == 4);
  CHECK(Shows(ctl({"delete-pool", "made"}), {"deleted pool made"}));
  worker.Kill();
  node.CheckAllIsBack();
}

TEST_CASE("kvpoolctl says its version and its help without a daemon") {
  const Ctl ctl("unix:/nowhere");
  const Answer version = ctl({"--version"});
  CHECK(version.code == kOk);
  CHECK(version.out == "kvpoolctl " KVPOOL_VERSION "\n");
  CHECK(Shows(ctl({"--help"}), {"usage: kvpoolctl", "--version"}));
}

TEST_CASE("kvpoolctl plans a pool as the daemon would make it, without one") {
  Node node(/*num_blocks=*/8);
  const Ctl ctl("unix:/nowhere");
  const auto plan =
      FromJson<v1::PlanPoolResponse>(ctl({"plan", "--spec=" + PoolJson("p", 8), "--json"}));
  CHECK(plan.layout().SerializeAsString() == node.Pool().layout().SerializeAsString());
  CHECK(ctl({"plan", "--spec={\"num_layers\": 0}"}).code == kRefused);
  node.CheckAllIsBack();
}

TEST_CASE("kvpoolctl's exit codes tell a refusal, a wrong command line and silence apart") {
  Node node(/*num_blocks=*/8);
  const Ctl ctl(node.daemon().operator_socket());
  CHECK(ctl({"pools", "nowhere"}).code == kRefused);
  CHECK(ctl({"session", "ffffffff"}).code == kRefused);
  CHECK(ctl({"block", "p", "8"}).code == kRefused);
  CHECK(ctl({"delete-pool", "nowhere"}).code == kRefused);
  CHECK(ctl({"block", "p", "eight"}).code == kUsage);
  CHECK(ctl({"block", "p"}).code == kUsage);
  CHECK(ctl({"conjure"}).code == kUsage);
  CHECK(ctl({"pools", "--loud"}).code == kUsage);
  CHECK(ctl({}).code == kUsage);
  CHECK(ctl({"--help"}).code == kOk);

  const Ctl worker_ctl(node.daemon().worker_socket());
  CHECK(worker_ctl({"pools"}).code == kOk);
  CHECK(worker_ctl({"delete-pool", "p"}).code == kRefused);
  const Ctl nobody("unix:" + node.daemon().directory().File("nobody"));
  for (const std::string command : {"status", "health", "pools"}) {
    const Answer answer = nobody({command, "--timeout=2s"});
    CHECK(answer.code == kUnreachable);
    CHECK(absl::StrContains(answer.err, "nobody"));
    CHECK(answer.out.empty());
  }
  node.CheckAllIsBack();
}

// Runs programs as a user whose environment says nothing of sockets. As root, as another user.
class BareUser {
 public:
  BareUser() { std::filesystem::remove_all(directory()); }
  ~BareUser() { std::filesystem::remove_all(directory()); }

  BareUser(const BareUser&) = delete;
  BareUser& operator=(const BareUser&) = delete;

  ChildProcess::Options Program(std::vector<std::string> words) const {
    std::vector<std::string> arguments{"/usr/bin/env", "-u", "XDG_RUNTIME_DIR", "-u",
                                       "KVPOOL_SOCKET"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    return {.arguments = std::move(arguments),
            .environment = {},
            .stderr_path = log_.File("log"),
            .uid = geteuid() == 0 ? std::optional(uid_) : std::nullopt};
  }
  int Run(std::vector<std::string> words) const {
    ChildProcess process(Program(std::move(words)));
    process.ReadAll();
    return process.Wait();
  }

 private:
  std::string directory() const { return "/tmp/kvpool-" + std::to_string(uid_); }

  const uid_t uid_ = geteuid() == 0 ? 54'321 : geteuid();
  TempDir log_;
};

TEST_CASE("A daemon, kvpoolctl and a worker of one user meet although nobody named a socket") {
  const BareUser user;
  ChildProcess daemon(user.Program({KVPOOL_KVPOOLD}));
  REQUIRE(Eventually([&] { return user.Run({KVPOOL_KVPOOLCTL, "health"}) == kOk; }));
  REQUIRE(user.Run({KVPOOL_KVPOOLCTL, "create-pool", "--spec=" + PoolJson("p", 4)}) == kOk);
  ChildProcess worker(user.Program({KVPOOL_TEST_WORKER, ""}));
  worker.WriteLine("open p worker");
  CHECK(worker.ReadLine() == "ok");
  worker.CloseStdin();
  CHECK(worker.Wait() == 0);
  daemon.Signal(SIGTERM);
  CHECK(daemon.Wait() == 0);
}

}  // namespace
}  // namespace kvpool::test
