#include "client/region_fd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <chrono>

#include "core/check.h"
#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/fake_fd_socket.h"
#include "tests/support/open_fds.h"
#include "tests/support/temp_dir.h"

namespace kvpool::client {
namespace {

using Answer = test::FakeFdSocket::Answer;

constexpr Duration kTimeout = std::chrono::seconds(10);

// A fd socket that gives out a memfd of 4096 bytes.
struct Server {
  test::TempDir directory;
  std::string path = directory.File("s.fd");
  OwnedFd memory{memfd_create("test", MFD_CLOEXEC)};
  std::atomic<uint64_t> last_region = 0;
  test::FakeFdSocket socket{path, memory.get(), 4096, [this](const v1::RegionFdRequest& request) {
                              last_region = request.region_id();
                            }};

  absl::StatusOr<OwnedFd> Fetch() {
    v1::RegionFdRequest request;
    request.set_session_id("s");
    request.set_region_id(11);
    v1::RegionFdResponse response;
    return FetchRegionFd(path, request, kTimeout, response);
  }
};

TEST_CASE("The fd that comes is the region's own, closed on exec") {
  Server server;
  const auto fd = server.Fetch();
  REQUIRE(fd.ok());
  CHECK(server.last_region == 11);
  struct stat got {};
  struct stat given {};
  REQUIRE(fstat(fd->get(), &got) == 0);
  REQUIRE(fstat(server.memory.get(), &given) == 0);
  CHECK(got.st_ino == given.st_ino);
  CHECK((fcntl(fd->get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("An answer without exactly one fd is INTERNAL, and no fd stays open") {
  Server server;
  const Answer answer = GENERATE(Answer::kNoFd, Answer::kTwoFds, Answer::kGarbage);
  server.socket.set_answer(answer);
  CHECK(absl::IsInternal(server.Fetch().status()));
  const auto open = test::OpenFdCount();
  for (int i = 0; i < 5; ++i) CHECK(absl::IsInternal(server.Fetch().status()));
  // The server's side of the last connection may not be closed yet.
  CHECK(test::OpenFdCount() <= open + 1);
}

TEST_CASE("A refusal comes over with its code, message and detail") {
  Server server;
  server.socket.set_answer(Answer::kRefusal);
  CHECK(server.Fetch().status() == absl::NotFoundError("no such region"));
  server.socket.set_answer(Answer::kUnknownSession);
  CHECK(server.Fetch().status() == MakeError(absl::StatusCode::kNotFound,
                                             {.reason = Reason::kSessionUnknown},
                                             "no such session"));
}

TEST_CASE("A connection that ends without an answer is UNAVAILABLE") {
  Server server;
  server.socket.set_answer(Answer::kNothing);
  CHECK(absl::IsUnavailable(server.Fetch().status()));
}

TEST_CASE("No fd socket at all is UNAVAILABLE") {
  const test::TempDir directory;
  v1::RegionFdResponse response;
  CHECK(absl::IsUnavailable(
      FetchRegionFd(directory.File("none.fd"), {}, kTimeout, response).status()));
}

TEST_CASE("A daemon that does not answer in time is DEADLINE_EXCEEDED") {
  const test::TempDir directory;
  const std::string path = directory.File("s.fd");
  const OwnedFd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  REQUIRE(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  REQUIRE(listen(listener.get(), 4) == 0);
  v1::RegionFdResponse response;
  CHECK(absl::IsDeadlineExceeded(
      FetchRegionFd(path, {}, std::chrono::milliseconds(20), response).status()));
}

}  // namespace
}  // namespace kvpool::client
