#include "core/device/ipc_probe.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/device/cuda/device_context.h"
#include "core/device/cuda/device_list.h"
#include "core/device/cuda/driver.h"
#include "core/device/cuda/imported_region.h"
#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool {
namespace cuda {
namespace {

// Reads the whole region into `bytes`, which is as long.
absl::Status ReadBack(DeviceContext& context, const ImportedRegion& region,
                      std::span<std::byte> bytes) {
  const DeviceContext::Scope scope(context);
  KVPOOL_RETURN_IF_ERROR(scope.status());
  Stream stream = nullptr;
  KVPOOL_RETURN_IF_ERROR(context.Check(
      context.api().cuStreamCreateWithPriority(&stream, kStreamNonBlocking, /*priority=*/0),
      "cuStreamCreateWithPriority"));
  absl::Status status =
      context.Check(context.api().cuMemcpyAsync(reinterpret_cast<DevicePointer>(bytes.data()),
                                                region.base(), bytes.size(), stream),
                    "cuMemcpyAsync");
  // Also where that failed: nothing is to write to `bytes` later.
  status.Update(context.Check(context.api().cuStreamSynchronize(stream), "cuStreamSynchronize"));
  status.Update(context.Check(context.api().cuStreamDestroy(stream), "cuStreamDestroy"));
  return status;
}

absl::Status Probe(const IpcProbe& probe) {
  KVPOOL_ASSIGN_OR_RETURN(const std::shared_ptr<const Driver> driver,
                          Driver::Load(DriverLibrary()));
  KVPOOL_ASSIGN_OR_RETURN(const DeviceEntry entry,
                          FindDevice(*driver, absl::StrCat("cuda:", probe.device_uuid)));
  KVPOOL_ASSIGN_OR_RETURN(const std::shared_ptr<DeviceContext> context,
                          DeviceContext::Retain(driver, entry));
  KVPOOL_ASSIGN_OR_RETURN(const std::unique_ptr<ImportedRegion> region,
                          ImportedRegion::Open(context, probe.handle, probe.size_bytes));
  std::vector<std::byte> found(probe.size_bytes);
  KVPOOL_RETURN_IF_ERROR(ReadBack(*context, *region, found));
  const std::vector<std::byte> expected = IpcPattern(probe.seed, probe.size_bytes);
  const auto [wrong, right] = std::ranges::mismatch(found, expected);
  if (wrong == found.end()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDevice},
                   absl::StrCat(entry.uuid, ": of ", probe.size_bytes,
                                " shared bytes, others than were written are read from byte ",
                                wrong - found.begin(), " on"));
}

}  // namespace
}  // namespace cuda

absl::Status RunIpcProbe(const IpcProbe& probe) { return cuda::Probe(probe); }

}  // namespace kvpool
