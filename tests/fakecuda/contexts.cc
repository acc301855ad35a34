#include "tests/fakecuda/contexts.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "tests/fakecuda/hex.h"
#include "tests/fakecuda/settings.h"

namespace fakecuda {
namespace {

std::atomic<bool> is_initialised = false;

std::vector<ContextState*>& Stack() {
  thread_local std::vector<ContextState*> stack;
  return stack;
}

int& CaptureMode() {
  thread_local int mode = kvpool::cuda::kCaptureModeGlobal;
  return mode;
}

// Those that a context does not outlive.
bool IsLasting(Result result) {
  const int number = static_cast<int>(result);
  return (number >= 700 && number < 720 && number != 701 && number != 708 && number != 711) ||
         result == Result::kEccUncorrectable || result == Result::kUnknown;
}

// Whether a word of CUDA_VISIBLE_DEVICES means the device: an ordinal, or the beginning of its
// UUID as text.
bool IsMeant(const std::string& word, size_t index) {
  if (word == std::to_string(index)) return true;
  const std::string hex = ToHex(UuidOf(index, /*of_gpu=*/false));
  for (const char* prefix : {"GPU-", "MIG-"}) {
    if (!word.starts_with(prefix)) continue;
    std::string digits = word.substr(4);
    std::erase(digits, '-');
    return !digits.empty() && hex.starts_with(digits);
  }
  return false;
}

}  // namespace

void ContextState::Fail(Result result) {
  if (IsLasting(result)) result_ = result;
}

bool ContextState::Release() {
  int references = references_;
  while (references > 0) {
    if (references_.compare_exchange_weak(references, references - 1)) return true;
  }
  return false;
}

ContextState& ContextOf(size_t index) {
  static auto& contexts = *[] {
    auto* made = new std::array<ContextState, kMaxDevices>();
    for (size_t i = 0; i < made->size(); ++i) (*made)[i].set_index(i);
    return made;
  }();
  return contexts.at(index);
}

int ExchangeCaptureMode(int mode) { return std::exchange(CaptureMode(), mode); }

bool IsBarredByCapture() {
  return TheSettings().GetNumber("FAKECUDA_CAPTURING", 0) != 0 &&
         CaptureMode() == kvpool::cuda::kCaptureModeGlobal;
}

ContextState* CurrentContext() { return Stack().empty() ? nullptr : Stack().back(); }

void PushContext(ContextState* context) { Stack().push_back(context); }

bool PopContext(ContextState** context) {
  if (Stack().empty()) return false;
  if (context != nullptr) *context = Stack().back();
  Stack().pop_back();
  return true;
}

bool IsInitialised() { return is_initialised; }
void SetInitialised() { is_initialised = true; }

std::vector<size_t> VisibleDevices() {
  const size_t count =
      std::min<size_t>(TheSettings().GetNumber("FAKECUDA_DEVICES", 1), kMaxDevices);
  std::vector<size_t> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = i;
  const auto words = TheSettings().Get("CUDA_VISIBLE_DEVICES");
  if (!words.has_value()) return all;
  std::vector<size_t> visible;
  std::istringstream list(*words);
  for (std::string word; std::getline(list, word, ',');) {
    const auto meant = std::ranges::find_if(all, [&](size_t i) { return IsMeant(word, i); });
    if (meant == all.end()) break;
    visible.push_back(*meant);
  }
  return visible;
}

Uuid UuidOf(size_t index, bool of_gpu) {
  Uuid uuid{};
  const bool is_part = !of_gpu && TheSettings().GetNumber("FAKECUDA_MIG", 0) == 1;
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    uuid.bytes[i] = static_cast<char>((is_part ? 0x70 : 0x10) + i * 7 + index * 29);
  }
  return uuid;
}

}  // namespace fakecuda
