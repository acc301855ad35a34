#pragma once

#include <sys/stat.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/config.h"
#include "server/unique_fd.h"

namespace kvpool::server {

// A unix socket's file. Removes it when destroyed, unless it is another's by then.
class SocketFile {
 public:
  SocketFile() = default;
  // `fd` listens on the socket at `path`, which is the file that is there now.
  static absl::StatusOr<SocketFile> Bind(const std::string& path, int type, mode_t mode,
                                         std::optional<gid_t> group);
  ~SocketFile();

  SocketFile(SocketFile&& other) noexcept = default;
  SocketFile& operator=(SocketFile&& other) noexcept = delete;

  int fd() const { return fd_.get(); }
  // As the destructor. Thread-safe; may come again.
  void Remove() const;

 private:
  SocketFile(std::string path, UniqueFd fd, dev_t device, ino_t inode)
      : path_(std::move(path)), fd_(std::move(fd)), device_(device), inode_(inode) {}

  std::string path_;
  UniqueFd fd_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

// A lock that one process at a time can have: a file beside the socket. Gone with the process,
// however it ends. Removes the file when destroyed.
class SocketLock {
 public:
  // FAILED_PRECONDITION where another process has it.
  static absl::StatusOr<SocketLock> Take(const std::string& socket_path);
  ~SocketLock();

  SocketLock(SocketLock&& other) noexcept = default;
  SocketLock& operator=(SocketLock&& other) noexcept = delete;

  // Removes the file, which the lock lives on without. Thread-safe; may come again.
  void Remove() const;

 private:
  SocketLock(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
};

// Listener has the sockets of one ListenerSpec: the one for gRPC, and the one for regions beside
// it where its callers may map. Both listen from the start; connections wait until they are
// accepted. Their files go when it is destroyed.
//
// At no moment can more than the spec's mode and group allow connect.
class Listener {
 public:
  // Makes the socket's directory (0750, the spec's group) and those above it (0755) where they are
  // missing, and replaces a socket that nobody serves any more.
  //
  // Errors, naming the path: FAILED_PRECONDITION, another daemon serves it, or it is something
  // else than a socket; PERMISSION_DENIED, NOT_FOUND and so on, a directory cannot be made or
  // written.
  static absl::StatusOr<std::unique_ptr<Listener>> Bind(const ListenerSpec& spec);

  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const ListenerSpec& spec() const { return spec_; }
  // "unix:" and the path.
  std::string address() const { return "unix:" + spec_.path; }
  int grpc_fd() const { return grpc_.fd(); }
  // -1: none.
  int region_fd() const { return region_.fd(); }

  // Removes the files now: nobody can connect any more. Thread-safe; may come again.
  void RemoveFiles() const;

 private:
  Listener(ListenerSpec spec, SocketLock lock, SocketFile grpc, SocketFile region)
      : spec_(std::move(spec)),
        lock_(std::move(lock)),
        grpc_(std::move(grpc)),
        region_(std::move(region)) {}

  const ListenerSpec spec_;
  const SocketLock lock_;  // Before the files: let go after they are removed.
  const SocketFile grpc_;
  const SocketFile region_;
};

// Makes `path` (0700) unless it is there. As CheckPrivateDirectory for this user.
absl::Status MakePrivateDirectory(const std::string& path);

}  // namespace kvpool::server
