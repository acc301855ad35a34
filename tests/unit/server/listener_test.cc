#include "server/listener.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/server/socket_client.h"

namespace kvpool::server {
namespace {

ListenerSpec MakeSpec(const std::string& path) {
  return {.path = path, .role = v1::ROLE_WORKER, .tenant = "", .mode = 0660, .group = std::nullopt};
}

mode_t ModeOf(const std::string& path) {
  struct stat status {};
  REQUIRE(lstat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

bool Exists(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0;
}

TEST_CASE("A listener has both its sockets, with their mode, in a directory of its own") {
  const test::TempDir directory;
  const std::string path = directory.File("a/b/kvpool.sock");
  ListenerSpec spec = MakeSpec(path);
  spec.group = getgid();
  const mode_t old_mask = umask(0077);
  auto listener = Listener::Bind(spec);
  umask(old_mask);
  REQUIRE(listener.ok());
  CHECK(ModeOf(directory.File("a")) == 0755);
  CHECK(ModeOf(directory.File("a/b")) == 0750);
  CHECK(ModeOf(path) == 0660);
  CHECK(ModeOf(path + ".fd") == 0660);
  CHECK(ModeOf(path + ".lock") == 0600);
  CHECK(ConnectTo(path, SOCK_STREAM).is_valid());
  CHECK(ConnectTo(path + ".fd", SOCK_SEQPACKET).is_valid());

  listener->reset();
  CHECK_FALSE(Exists(path));
  CHECK_FALSE(Exists(path + ".fd"));
  CHECK_FALSE(Exists(path + ".lock"));
}

TEST_CASE("The umask takes nothing from a mode that is wanted") {
  const test::TempDir directory;
  ListenerSpec spec = MakeSpec(directory.File("kvpool.sock"));
  spec.mode = 0666;
  const mode_t old_mask = umask(0777);
  const auto listener = Listener::Bind(spec);
  umask(old_mask);
  REQUIRE(listener.ok());
  CHECK(ModeOf(spec.path) == 0666);
}

TEST_CASE("An inspector's listener has no fd socket") {
  const test::TempDir directory;
  ListenerSpec spec = MakeSpec(directory.File("kvpool.sock"));
  spec.role = v1::ROLE_INSPECTOR;
  const auto listener = Listener::Bind(spec);
  REQUIRE(listener.ok());
  CHECK((*listener)->region_fd() == -1);
  CHECK_FALSE(Exists(spec.path + ".fd"));
}

TEST_CASE("A socket that a living daemon serves is respected") {
  const test::TempDir directory;
  const ListenerSpec spec = MakeSpec(directory.File("kvpool.sock"));
  const auto first = Listener::Bind(spec);
  REQUIRE(first.ok());
  const auto second = Listener::Bind(spec);
  CHECK(absl::IsFailedPrecondition(second.status()));
  CHECK(second.status().message() == "another daemon serves " + spec.path);
  CHECK(ConnectTo(spec.path, SOCK_STREAM).is_valid());
}

TEST_CASE("A socket that a dead daemon left is replaced") {
  const test::TempDir directory;
  const ListenerSpec spec = MakeSpec(directory.File("kvpool.sock"));
  // A child that ends without cleaning up, as by SIGKILL.
  const pid_t child = fork();
  if (child == 0) {
    const auto listener = Listener::Bind(spec);
    _exit(listener.ok() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  REQUIRE(Exists(spec.path));
  CHECK_FALSE(ConnectTo(spec.path, SOCK_STREAM).is_valid());

  const auto listener = Listener::Bind(spec);
  REQUIRE(listener.ok());
  CHECK(ConnectTo(spec.path, SOCK_STREAM).is_valid());
  CHECK(ConnectTo(spec.path + ".fd", SOCK_SEQPACKET).is_valid());
}

TEST_CASE("A socket that something else listens on is respected, without a lock too") {
  const test::TempDir directory;
  const ListenerSpec spec = MakeSpec(directory.File("kvpool.sock"));
  const auto other = SocketFile::Bind(spec.path, SOCK_STREAM, 0600, std::nullopt);
  REQUIRE(other.ok());
  const auto listener = Listener::Bind(spec);
  CHECK(absl::IsFailedPrecondition(listener.status()));
  CHECK(absl::StrContains(listener.status().message(), spec.path));
  CHECK(ConnectTo(spec.path, SOCK_STREAM).is_valid());
}

TEST_CASE("What is not a socket is never removed") {
  const test::TempDir directory;
  const ListenerSpec spec = MakeSpec(directory.File("kvpool.sock"));
  std::ofstream(spec.path) << "data";
  CHECK(absl::IsFailedPrecondition(Listener::Bind(spec).status()));
  CHECK(std::filesystem::file_size(spec.path) == 4);

  std::filesystem::remove(spec.path);
  std::filesystem::create_symlink(directory.File("elsewhere"), spec.path);
  CHECK(absl::IsFailedPrecondition(Listener::Bind(spec).status()));
  CHECK(std::filesystem::is_symlink(spec.path));
}

TEST_CASE("A lock file that is a link is not followed") {
  const test::TempDir directory;
  const ListenerSpec spec = MakeSpec(directory.File("kvpool.sock"));
  std::filesystem::create_symlink(directory.File("victim"), spec.path + ".lock");
  CHECK_FALSE(Listener::Bind(spec).ok());
  CHECK_FALSE(Exists(directory.File("victim")));
}

TEST_CASE("A listener removes its socket's file only while it is still its own") {
  const test::TempDir directory;
  const ListenerSpec spec = MakeSpec(directory.File("kvpool.sock"));
  auto listener = Listener::Bind(spec);
  REQUIRE(listener.ok());
  // Moved aside, so that its inode is not given to the new file.
  std::filesystem::rename(spec.path, directory.File("old"));
  std::ofstream(spec.path) << "another's";
  listener->reset();
  CHECK(Exists(spec.path));
}

TEST_CASE("A path that is too long is refused with the path and the limit") {
  const test::TempDir directory;
  const ListenerSpec spec = MakeSpec(directory.File(std::string(120, 'a')));
  const auto listener = Listener::Bind(spec);
  CHECK(absl::IsInvalidArgument(listener.status()));
  CHECK(absl::StrContains(listener.status().message(), spec.path));
  CHECK(absl::StrContains(listener.status().message(), "104"));
}

TEST_CASE("A directory that is none is refused with its path") {
  const test::TempDir directory;
  std::ofstream(directory.File("file")) << "x";
  const auto listener = Listener::Bind(MakeSpec(directory.File("file/kvpool.sock")));
  CHECK_FALSE(listener.ok());
  CHECK(absl::StrContains(listener.status().message(), directory.File("file")));
}

// Runs `test` in a child under another uid, where this process may change it; whether it was true.
bool HoldsAsNobody(const std::function<bool()>& holds) {
  constexpr uid_t kNobody = 65534;
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) _exit(2);
    _exit(holds() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status == 0;
}

TEST_CASE("A directory that cannot be written or made is refused with its path") {
  const test::TempDir directory;
  std::filesystem::create_directory(directory.File("closed"));
  std::filesystem::permissions(directory.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(directory.File("closed"), std::filesystem::perms(0555));
  CHECK(HoldsAsNobody([&] {
    const absl::Status status =
        Listener::Bind(MakeSpec(directory.File("closed/kvpool.sock"))).status();
    return absl::IsPermissionDenied(status) &&
           absl::StrContains(status.message(), directory.File("closed"));
  }));
  CHECK(HoldsAsNobody([&] {
    const absl::Status status =
        Listener::Bind(MakeSpec(directory.File("closed/inner/kvpool.sock"))).status();
    return absl::IsPermissionDenied(status) &&
           absl::StrContains(status.message(), directory.File("closed/inner"));
  }));
}

TEST_CASE("A private directory is made closed, and refused where it may be another's") {
  const test::TempDir directory;
  const std::string path = directory.File("private");
  REQUIRE(MakePrivateDirectory(path).ok());
  CHECK(ModeOf(path) == 0700);
  CHECK(MakePrivateDirectory(path).ok());

  std::filesystem::permissions(path, std::filesystem::perms(0777));
  CHECK(absl::IsFailedPrecondition(MakePrivateDirectory(path)));

  const std::string link = directory.File("link");
  std::filesystem::create_directory_symlink(directory.File("target"), link);
  CHECK(absl::IsFailedPrecondition(MakePrivateDirectory(link)));

  std::filesystem::permissions(path, std::filesystem::perms(0755));
  std::filesystem::permissions(directory.path(), std::filesystem::perms(0755));
  if (geteuid() == 0) {
    CHECK(HoldsAsNobody([&] { return absl::IsFailedPrecondition(MakePrivateDirectory(path)); }));
  }
}

}  // namespace
}  // namespace kvpool::server
