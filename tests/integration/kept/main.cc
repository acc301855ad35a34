// A worker with kept sessions, for tests: kvpool_test_kept_worker SOCKET COUNT NAME [TTL_S]. It has
// COUNT clients of their own with a kept session of the pool "p" each, called NAME, NAME-1 and so
// on; it says "ok" when it has them, takes a command a line, and answers each with a line:
//
//   use      waits until each session lives, and writes and reads a block of each
//   changes  how often each was told of a loss, and the reason that the last one gave
//   hold     holds the first one's session, and two blocks of it
//   held     allocates one more of the session that it holds
//   let-go   lets go of it
//   lose     loses the answer to the first one's next opening
//
// It ends when stdin does.
#include <atomic>
#include <chrono>
#include <deque>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "client/client.h"
#include "core/error.h"
#include "core/mutex.h"
#include "core/status_macros.h"
#include "tests/integration/support/block_bytes.h"
#include "tests/integration/support/forwarding_transport.h"

namespace kvpool::test {
namespace {

constexpr std::chrono::seconds kPatience(120);

// Loses the answer to an opening.
class LosingTransport final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;

  absl::Status OpenSession(const v1::OpenSessionRequest& request, const client::CallContext& call,
                           v1::OpenSessionResponse& response) override {
    absl::Status status = ForwardingTransport::OpenSession(request, call, response);
    return status.ok() && is_losing.exchange(false) ? absl::UnavailableError("lost") : status;
  }

  std::atomic<bool> is_losing = false;
};

// A client and its kept session.
class Kept {
 public:
  absl::Status Open(const std::string& socket, const std::string& name, Duration ttl) {
    transport_ = std::make_shared<LosingTransport>(socket);
    KVPOOL_ASSIGN_OR_RETURN(client::Client client,
                            client::Client::Create({.socket = socket, .transport = transport_}));
    KVPOOL_ASSIGN_OR_RETURN(
        session_, client.KeepSession({.session = {.pool = "p", .client_name = name, .ttl = ttl},
                                      .on_change = [this](const client::SessionChange& change) {
                                        const MutexLock lock(mutex_);
                                        ++change_count_;
                                        lost_ = GetErrorDetail(change.lost).reason;
                                      }}));
    return absl::OkStatus();
  }

  client::KeptSession& session() { return *session_; }
  void LoseNext() { transport_->is_losing = true; }

  // As workers do that hold nothing from step to step: a session that ends meanwhile is no failure.
  absl::Status Use() {
    while (true) {
      KVPOOL_ASSIGN_OR_RETURN(const auto mapped, session_->Current(kPatience));
      const absl::Status status = Use(*mapped);
      if (GetErrorDetail(status).reason != Reason::kSessionUnknown) return status;
    }
  }

  std::string Changes() const {
    const MutexLock lock(mutex_);
    return absl::StrCat(change_count_, " ", ReasonName(lost_));
  }

 private:
  static absl::Status Use(client::MappedSession& mapped) {
    KVPOOL_ASSIGN_OR_RETURN(const auto leases, mapped.session().Alloc(1));
    client::Mapping& mapping = mapped.mapping();
    const BlockId block = leases[0].id();
    const std::vector<std::byte> bytes(SideSize(mapping, 0, /*is_k=*/true), std::byte{42});
    KVPOOL_RETURN_IF_ERROR(WriteSide(mapping, 0, /*is_k=*/true, block, bytes));
    KVPOOL_ASSIGN_OR_RETURN(const auto read, ReadSide(mapping, 0, /*is_k=*/true, block));
    if (read != bytes) return absl::DataLossError("other bytes were read than written");
    return absl::OkStatus();
  }

  mutable Mutex mutex_;
  int change_count_ ABSL_GUARDED_BY(mutex_) = 0;
  Reason lost_ ABSL_GUARDED_BY(mutex_) = Reason::kUnspecified;
  std::shared_ptr<LosingTransport> transport_;
  std::unique_ptr<client::KeptSession> session_;
};

class Worker {
 public:
  absl::Status Open(const std::string& socket, int count, const std::string& name, Duration ttl) {
    for (int i = 0; i < count; ++i) {
      const std::string full_name = i == 0 ? name : absl::StrCat(name, "-", i);
      KVPOOL_RETURN_IF_ERROR(kept_.emplace_back().Open(socket, full_name, ttl));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Do(const std::string& command) {
    if (command == "use") {
      for (Kept& kept : kept_) KVPOOL_RETURN_IF_ERROR(kept.Use());
    } else if (command == "changes") {
      return absl::StrJoin(kept_, ", ", [](std::string* out, const Kept& kept) {
        absl::StrAppend(out, kept.Changes());
      });
    } else if (command == "hold") {
      KVPOOL_ASSIGN_OR_RETURN(held_, kept_[0].session().Current());
      KVPOOL_ASSIGN_OR_RETURN(leases_, held_->session().Alloc(2));
    } else if (command == "held") {
      KVPOOL_RETURN_IF_ERROR(held_->session().Alloc(1).status());
    } else if (command == "let-go") {
      leases_.clear();
      held_.reset();
    } else if (command == "lose") {
      kept_[0].LoseNext();
    } else {
      return absl::InvalidArgumentError(absl::StrCat("not understood: ", command));
    }
    return std::string("ok");
  }

 private:
  std::deque<Kept> kept_;  // They do not move.
  std::shared_ptr<client::MappedSession> held_;
  std::vector<client::BlockLease> leases_;
};

std::string Said(const absl::StatusOr<std::string>& answer) {
  if (answer.ok()) return *answer;
  return absl::StrCat("error ", absl::StatusCodeToString(answer.status().code()), " ",
                      ReasonName(GetErrorDetail(answer.status()).reason), ": ",
                      answer.status().message());
}

}  // namespace
}  // namespace kvpool::test

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return 2;
  const std::chrono::seconds ttl(argc == 5 ? std::stoi(argv[4]) : 0);
  kvpool::test::Worker worker;
  const absl::Status opened = worker.Open(argv[1], std::stoi(argv[2]), argv[3], ttl);
  std::cout << (opened.ok() ? "ok" : opened.ToString()) << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << kvpool::test::Said(worker.Do(line)) << std::endl;
  }
  return 0;
}
