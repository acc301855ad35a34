#include <string>

#include "tests/bench/system/report.h"
#include "tests/bench/system/scenarios.h"
#include "tests/support/daemon_process.h"

namespace kvpool::bench {
namespace {

constexpr double kLimitMib = 40;

// 10^5 blocks of 32 bytes.
constexpr char kPool[] =
    R"([{"name": "idle", "numLayers": 1, "blockSize": 1, "dtype": "raw", "rawTokenBytes": 16,)"
    R"( "numBlocks": 100000}])";
constexpr double kPoolMib = 100'000.0 * 32 / (1 << 20);

}  // namespace

void RunResident() {
  test::DaemonProcess daemon({.pools_json = kPool});
  const double resident_mib = static_cast<double>(daemon.ResidentBytes()) / (1 << 20) - kPoolMib;
  char figure[32];
  std::snprintf(figure, sizeof(figure), "%.1f MiB", resident_mib);
  Report("15", "resident memory of an idle daemon, 10^5 blocks", figure, "40 MiB",
         resident_mib / kLimitMib);
}

}  // namespace kvpool::bench
