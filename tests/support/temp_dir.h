#pragma once

#include <filesystem>
#include <string>

namespace kvpool::test {

// A directory of its own under /tmp (short paths: a unix socket's has 104 bytes at most), removed
// with all that is in it when destroyed.
class TempDir {
 public:
  TempDir();
  ~TempDir();

  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string File(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace kvpool::test
