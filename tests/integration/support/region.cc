#include "tests/integration/support/region.h"

#include <chrono>

#include "absl/strings/strip.h"

#include "client/region_fd.h"
#include "kvpool/v1/layout.pb.h"

namespace kvpool::test {

absl::Status AskForRegion(const std::string& worker_socket, const std::string& session_id,
                          uint64_t region_id) {
  const std::string path(absl::StripPrefix(worker_socket, "unix:"));
  v1::RegionFdRequest request;
  request.set_session_id(session_id);
  request.set_region_id(region_id);
  v1::RegionFdResponse response;
  return client::FetchRegionFd(path + ".fd", request, std::chrono::seconds(60), response).status();
}

}  // namespace kvpool::test
