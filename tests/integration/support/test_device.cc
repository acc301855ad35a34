#include "tests/integration/support/test_device.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "core/check.h"

namespace kvpool::test {
namespace {

// Made before main, while no other thread looks at the environment.
class Setting {
 public:
  Setting() {
    const char* const device = getenv("KVPOOL_TEST_DEVICE");
    if (device == nullptr || *device == '\0') return;
    device_ = device;
#ifdef KVPOOL_TEST_LIBCUDA
    KVPOOL_CHECK(setenv("KVPOOL_LIBCUDA", KVPOOL_TEST_LIBCUDA, /*overwrite=*/0) == 0);
#endif
    KVPOOL_CHECK(setenv("FAKECUDA_DEVICES", "2", /*overwrite=*/0) == 0);
    if (getenv("FAKECUDA_DIR") != nullptr) return;
    std::string name = "/tmp/kvpool-gpu.XXXXXX";
    KVPOOL_CHECK(mkdtemp(name.data()) != nullptr);
    KVPOOL_CHECK(setenv("FAKECUDA_DIR", name.c_str(), /*overwrite=*/0) == 0);
    directory_ = name;
  }
  ~Setting() {
    // A forked child's exit is not the end of it.
    if (directory_.empty() || getpid() != pid_) return;
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

  const std::string& device() const { return device_; }

 private:
  const pid_t pid_ = getpid();
  std::string device_;
  std::string directory_;
};

const Setting kSetting;

}  // namespace

const std::string& TestDevice() { return kSetting.device(); }

std::string DevicesJson() {
  return TestDevice().empty() ? "" : R"(, "devices": [")" + TestDevice() + R"("])";
}

}  // namespace kvpool::test
