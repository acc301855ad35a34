#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace fakecuda {

// What fakecuda.h lists: what was set, else what the environment said when the driver was loaded
// (so that no thread reads it while a test changes it). Thread-safe.
class Settings {
 public:
  Settings();

  std::optional<std::string> Get(const std::string& name) const;
  uint64_t GetNumber(const std::string& name, uint64_t otherwise) const;
  void Set(const std::string& name, std::optional<std::string> value);
  void Reset();

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> environment_;
  std::map<std::string, std::string> set_;
};

Settings& TheSettings();

}  // namespace fakecuda
