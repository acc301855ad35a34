#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fakecuda {

// The memory of the fake GPUs of all processes: a file an allocation, in one directory. A file
// lives as long as its maker or an importer holds its part of a lock; what nobody holds, since
// they let go or died, is swept away. Calls are made one at a time by the directory's own lock.
class BackingStore {
 public:
  // A file that this process holds: as its maker, or as an importer.
  struct File {
    int fd = -1;
    void* data = nullptr;  // Mapped.
    uint64_t size = 0;
  };

  // Makes a file of the device, full of 0xA5; nothing where its device has no room left.
  static std::optional<File> Make(size_t device, const std::string& name, uint64_t size);
  // Opens one that another process made; nothing where its maker let go of it or is gone.
  static std::optional<File> Import(const std::string& name);
  // Lets go of a file. A maker's can be imported no longer, and lives on for those who have it.
  static void Close(const File& file);

  static uint64_t UsedBytes(size_t device);
};

}  // namespace fakecuda
