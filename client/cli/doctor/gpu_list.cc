#include "client/cli/doctor/gpu_list.h"

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kvpool::cli {

absl::StatusOr<std::vector<DeviceInfo>> ListGpus(std::shared_ptr<Gpus> gpus, Duration limit) {
  std::packaged_task<absl::StatusOr<std::vector<DeviceInfo>>()> ask(
      [gpus = std::move(gpus)] { return gpus->List(); });
  auto listed = ask.get_future();
  std::thread(std::move(ask)).detach();
  if (listed.wait_for(limit) == std::future_status::ready) return listed.get();
  return absl::DeadlineExceededError(absl::StrCat(
      "the CUDA driver has not said within ",
      std::chrono::duration_cast<std::chrono::milliseconds>(limit).count(),
      " ms which GPUs there are: it hangs; see the kernel's log, and restart what holds the GPUs"));
}

}  // namespace kvpool::cli
