#include "server/acceptor.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <chrono>

#include "tests/support/catch.h"
#include "tests/support/sanitizer.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/server/socket_client.h"

namespace kvpool::server {
namespace {

constexpr uint64_t kToken = 7;

// While it lives, this process can open no descriptor more than it has. Not under a sanitizer:
// UBSan opens some to look at an object's type, and takes a failure for a wrong one.
class NoDescriptors {
 public:
  NoDescriptors() {
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before_) == 0);
    // The lowest number that is free is what the next descriptor would have.
    const UniqueFd next(open("/dev/null", O_RDONLY | O_CLOEXEC));
    REQUIRE(next.is_valid());
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(next.get());
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

struct Fixture {
  Fixture() {
    auto made = Poller::Create();
    REQUIRE(made.ok());
    poller = *std::move(made);
    listener = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    REQUIRE(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
            0);
    REQUIRE(listen(listener.get(), 128) == 0);
    acceptor = std::make_unique<Acceptor>(*poller, listener.get(), kToken);
  }

  UniqueFd Connect() const { return ConnectTo(path, SOCK_STREAM); }
  bool IsReady() const { return poller->Wait(std::chrono::steady_clock::now()).size() == 1; }
  // Waits until it is to watch again, as its thread would, and lets it.
  void AwaitResume() const {
    REQUIRE(acceptor->resume_time().has_value());
    while (std::chrono::steady_clock::now() < *acceptor->resume_time()) {
      // Nothing is told meanwhile: a thread that waits so does not spin.
      REQUIRE(poller->Wait(acceptor->resume_time()).empty());
    }
    acceptor->Resume();
    REQUIRE_FALSE(acceptor->resume_time().has_value());
  }

  test::TempDir directory;
  std::string path = directory.File("socket");
  std::unique_ptr<Poller> poller;
  UniqueFd listener;
  std::unique_ptr<Acceptor> acceptor;
};

TEST_CASE("What waits is taken, at most 64 connections at a time") {
  Fixture f;
  CHECK_FALSE(f.IsReady());
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 65; ++i) clients.push_back(f.Connect());
  CHECK(f.IsReady());
  const std::vector<UniqueFd> taken = f.acceptor->Take();
  CHECK(taken.size() == 64);
  CHECK((fcntl(taken[0].get(), F_GETFL) & O_NONBLOCK) != 0);
  CHECK((fcntl(taken[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(f.IsReady());
  CHECK(f.acceptor->Take().size() == 1);
  CHECK_FALSE(f.IsReady());
  CHECK(f.acceptor->Take().empty());
  CHECK_FALSE(f.acceptor->resume_time().has_value());
}

TEST_CASE("Without descriptors a connection is turned away, and the thread is not kept busy") {
  if (test::kIsSanitized) return;
  Fixture f;
  const UniqueFd first = f.Connect();
  const UniqueFd second = f.Connect();
  const UniqueFd third = f.Connect();
  {
    const NoDescriptors none;
    CHECK(f.acceptor->Take().empty());
    CHECK(ReadsEnd(first.get()));
    CHECK_FALSE(f.IsReady());
    // Before its time it does not watch.
    f.acceptor->Resume();
    CHECK_FALSE(f.IsReady());
    f.AwaitResume();
    CHECK(f.IsReady());
    CHECK(f.acceptor->Take().empty());
    CHECK(ReadsEnd(second.get()));
  }
  f.AwaitResume();
  CHECK(f.IsReady());
  CHECK(f.acceptor->Take().size() == 1);
  CHECK_FALSE(f.acceptor->resume_time().has_value());
  const UniqueFd later = f.Connect();
  CHECK(f.acceptor->Take().size() == 1);
}

TEST_CASE("An acceptor that could keep no descriptor looks away until there are some") {
  if (test::kIsSanitized) return;
  Fixture f;
  f.acceptor.reset();
  const UniqueFd client = f.Connect();
  {
    const NoDescriptors none;
    f.acceptor = std::make_unique<Acceptor>(*f.poller, f.listener.get(), kToken);
    CHECK(f.acceptor->Take().empty());
    CHECK_FALSE(f.IsReady());
  }
  f.AwaitResume();
  CHECK(f.acceptor->Take().size() == 1);
}

TEST_CASE("An acceptor that is gone, paused or not, is not told of connections") {
  if (test::kIsSanitized) return;
  Fixture f;
  const UniqueFd client = f.Connect();
  SECTION("watching") {}
  SECTION("paused") {
    const NoDescriptors none;
    CHECK(f.acceptor->Take().empty());
  }
  f.acceptor.reset();
  CHECK_FALSE(f.IsReady());
}

}  // namespace
}  // namespace kvpool::server
