#include "tests/gpu/questions/sharing.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "tests/gpu/questions/question.h"

namespace kvpool::questions {

SharedPage::SharedPage(const Gpu& gpu, uint64_t size_bytes) : gpu_(gpu) {
  Result result = gpu.api().cuMemAlloc(&address_, size_bytes);
  if (result != Result::kSuccess) {
    address_ = 0;
    Say("cuMemAlloc: " + gpu.Text(result));
    return;
  }
  cuda::IpcHandle handle{};
  result = gpu.Fill(address_, 0, size_bytes);
  if (result == Result::kSuccess) result = gpu.api().cuIpcGetMemHandle(&handle, address_);
  if (result == Result::kSuccess) {
    command_ = "open " + absl::BytesToHexString({handle.bytes, sizeof(handle.bytes)});
  } else {
    Say("cuIpcGetMemHandle: " + gpu.Text(result));
  }
}

SharedPage::~SharedPage() {
  if (address_ != 0) gpu_.api().cuMemFree(address_);
}

bool SharedPage::Open(Peer& peer) const {
  if (command_.empty()) return false;
  const Reply opened = peer.Do(command_);
  if (!opened.ok()) Say("cuIpcOpenMemHandle: " + opened.text);
  return opened.ok();
}

std::string MibBetween(uint64_t less_bytes, uint64_t more_bytes) {
  const double mib =
      (static_cast<double>(more_bytes) - static_cast<double>(less_bytes)) / (1024.0 * 1024.0);
  return absl::StrFormat("%.0f MiB", mib);
}

}  // namespace kvpool::questions
