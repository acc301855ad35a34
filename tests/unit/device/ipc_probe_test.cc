#include "core/device/ipc_probe.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "tests/support/catch.h"

namespace kvpool {
namespace {

IpcProbe Probe() {
  return {.device_uuid = "GPU-01234567-89ab",
          .size_bytes = 2'097'152,
          .seed = 18'446'744'073'709'551'615U,
          .handle = {std::byte{0x00}, std::byte{0x7F}, std::byte{0xFA}}};
}

TEST_CASE("An IPC probe's text is a line that says it again") {
  const std::string text = IpcProbeText(Probe());
  CHECK(text == "GPU-01234567-89ab:2097152:18446744073709551615:007ffa");
  const auto probe = ParseIpcProbe(text);
  REQUIRE(probe.ok());
  CHECK(*probe == Probe());
}

TEST_CASE("Text that is no IPC probe is refused with the part that is wrong") {
  struct Wrong {
    const char* text;
    const char* says;
  };
  const Wrong wrong = GENERATE(
      Wrong{"", "1 parts"}, Wrong{"GPU-0:1:2", "3 parts"}, Wrong{"GPU-0:1:2:00:", "5 parts"},
      Wrong{":1:2:00", "UUID"}, Wrong{"GPU-0::2:00", "size is \"\""},
      Wrong{"GPU-0:0:2:00", "size is \"0\""}, Wrong{"GPU-0:67108865:2:00", "size is \"67108865\""},
      Wrong{"GPU-0:-1:2:00", "size is \"-1\""}, Wrong{"GPU-0:1:x:00", "seed is \"x\""},
      Wrong{"GPU-0:1:2:", "handle is \"\""}, Wrong{"GPU-0:1:2:0", "handle is \"0\""},
      Wrong{"GPU-0:1:2:0g", "handle is \"0g\""}, Wrong{"GPU-0:1:2:00\n", "handle"});
  const auto probe = ParseIpcProbe(wrong.text);
  CAPTURE(wrong.text, probe.status().ToString());
  CHECK(probe.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(probe.status().ToString().find(wrong.says) != std::string::npos);
}

TEST_CASE("An IPC pattern has no word twice, and as many bytes as asked for") {
  const std::vector<std::byte> bytes = IpcPattern(/*seed=*/7, /*size_bytes=*/8 * 1024 + 3);
  REQUIRE(bytes.size() == 8 * 1024 + 3);
  std::set<std::array<std::byte, 8>> words;
  for (size_t word = 0; word < 1024; ++word) {
    std::array<std::byte, 8> copy{};
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(8 * word), 8, copy.begin());
    words.insert(copy);
  }
  CHECK(words.size() == 1024);
  CHECK(IpcPattern(7, 64) != IpcPattern(8, 64));
}

}  // namespace
}  // namespace kvpool
