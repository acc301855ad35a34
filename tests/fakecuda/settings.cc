#include "tests/fakecuda/settings.h"

#include <unistd.h>

#include <string_view>

namespace fakecuda {

Settings::Settings() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    if (equals == std::string_view::npos) continue;
    if (name.starts_with("FAKECUDA_") || name == "CUDA_VISIBLE_DEVICES") {
      environment_.emplace(name, text.substr(equals + 1));
    }
  }
}

std::optional<std::string> Settings::Get(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = set_.find(name); found != set_.end()) return found->second;
  if (const auto found = environment_.find(name); found != environment_.end()) {
    return found->second;
  }
  return std::nullopt;
}

uint64_t Settings::GetNumber(const std::string& name, uint64_t otherwise) const {
  const auto text = Get(name);
  return text.has_value() ? std::stoull(*text) : otherwise;
}

void Settings::Set(const std::string& name, std::optional<std::string> value) {
  const std::lock_guard lock(mutex_);
  set_.erase(name);
  if (value.has_value()) set_.emplace(name, *std::move(value));
}

void Settings::Reset() {
  const std::lock_guard lock(mutex_);
  set_.clear();
}

Settings& TheSettings() {
  // Never destroyed: streams' threads may outlive static objects.
  static auto& settings = *new Settings();
  return settings;
}

}  // namespace fakecuda
