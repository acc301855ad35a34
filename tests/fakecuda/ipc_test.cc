// Memory that two processes share, by the rules of CUDA IPC.
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/fakecuda/fixture.h"
#include "tests/fakecuda/peer.h"

namespace fakecuda {
namespace {

constexpr size_t kSize = size_t{2} << 20;

std::vector<std::string> EnvironmentOf(const FreshDriver& driver) {
  return {"FAKECUDA_DIR=" + driver.directory()};
}

IpcHandle HandleOf(DevicePointer pointer) {
  IpcHandle handle{};
  REQUIRE(cuIpcGetMemHandle(&handle, pointer) == Result::kSuccess);
  return handle;
}

TEST_CASE("two processes see the same memory at addresses of their own") {
  const FreshDriver driver;
  CurrentDevice device;
  const DevicePointer memory = device.Allocate(kSize);
  device.Write(memory, std::vector<uint8_t>{1, 2, 3});
  Peer peer(EnvironmentOf(driver));
  REQUIRE(peer.Open(HandleOf(memory)) == 0);
  CHECK(peer.Peek(2) == 3);
  CHECK(peer.Peek(kSize - 1) == 0xA5);
  CHECK(peer.Poke(1, 9) == 0);
  CHECK(device.Read(memory, 3) == std::vector<uint8_t>{1, 9, 3});
  CHECK(peer.Do("close") == 0);
  CHECK(peer.Do("close") == static_cast<int>(Result::kInvalidValue));
  CHECK(cuMemFree_v2(memory) == Result::kSuccess);
}

TEST_CASE("a process cannot open its own handle, nor one of a process of the same pid") {
  const FreshDriver driver;
  CurrentDevice device;
  const DevicePointer memory = device.Allocate(kSize);
  DevicePointer opened = 0;
  CHECK(cuIpcOpenMemHandle_v2(&opened, HandleOf(memory), 1) == Result::kInvalidContext);
  auto environment = EnvironmentOf(driver);
  environment.push_back("FAKECUDA_PID=" + std::to_string(getpid()));
  Peer same(environment);
  CHECK(same.Open(HandleOf(memory)) == static_cast<int>(Result::kInvalidContext));
  CHECK(cuMemFree_v2(memory) == Result::kSuccess);
}

TEST_CASE("opening a handle twice gives one mapping that is closed twice") {
  const FreshDriver driver;
  CurrentDevice device;
  Peer peer(EnvironmentOf(driver));
  std::string hex;
  REQUIRE(peer.Do("make " + std::to_string(kSize), &hex) == 0);
  DevicePointer first = 0;
  DevicePointer second = 0;
  REQUIRE(cuIpcOpenMemHandle_v2(&first, FromHex(hex), 1) == Result::kSuccess);
  REQUIRE(cuIpcOpenMemHandle_v2(&second, FromHex(hex), 1) == Result::kSuccess);
  CHECK(first == second);
  CHECK(fakecuda_live("import") == 1);
  CHECK(cuIpcCloseMemHandle(first) == Result::kSuccess);
  CHECK(fakecuda_live("import") == 1);
  CHECK(cuIpcCloseMemHandle(first) == Result::kSuccess);
  CHECK(fakecuda_live("import") == 0);
}

TEST_CASE("handles are for whole allocations of one's own, and are opened with the one flag") {
  const FreshDriver driver;
  CurrentDevice device;
  const DevicePointer memory = device.Allocate(kSize);
  IpcHandle handle{};
  CHECK(cuIpcGetMemHandle(&handle, memory + 512) == Result::kInvalidValue);
  Peer peer(EnvironmentOf(driver));
  std::string hex;
  REQUIRE(peer.Do("make " + std::to_string(kSize), &hex) == 0);
  DevicePointer opened = 0;
  CHECK(cuIpcOpenMemHandle_v2(&opened, FromHex(hex), 0) == Result::kInvalidValue);
  REQUIRE(cuIpcOpenMemHandle_v2(&opened, FromHex(hex), 1) == Result::kSuccess);
  CHECK(cuIpcGetMemHandle(&handle, opened) == Result::kInvalidValue);
  CHECK(cuMemFree_v2(opened) == Result::kInvalidValue);
  CHECK(cuIpcCloseMemHandle(opened) == Result::kSuccess);
  CHECK(cuMemFree_v2(memory) == Result::kSuccess);
}

TEST_CASE("memory outlives its maker for those who have it, and for nobody else") {
  const FreshDriver driver;
  CurrentDevice device;
  Peer maker(EnvironmentOf(driver));
  std::string hex;
  REQUIRE(maker.Do("make " + std::to_string(kSize), &hex) == 0);
  REQUIRE(maker.Poke(7, 77) == 0);
  DevicePointer opened = 0;
  REQUIRE(cuIpcOpenMemHandle_v2(&opened, FromHex(hex), 1) == Result::kSuccess);
  maker.Kill();
  CHECK(device.Read(opened + 7, 1) == std::vector<uint8_t>{77});
  Peer late(EnvironmentOf(driver));
  CHECK(late.Open(FromHex(hex)) == static_cast<int>(Result::kInvalidHandle));
  size_t free = 0;
  size_t total = 0;
  REQUIRE(cuMemGetInfo_v2(&free, &total) == Result::kSuccess);
  CHECK(total - free == kSize);
  CHECK(cuIpcCloseMemHandle(opened) == Result::kSuccess);
  REQUIRE(cuMemGetInfo_v2(&free, &total) == Result::kSuccess);
  CHECK(total == free);
  CHECK(std::filesystem::is_empty(driver.directory()));
}

TEST_CASE("what is freed can be opened no longer") {
  const FreshDriver driver;
  CurrentDevice device;
  const DevicePointer memory = device.Allocate(kSize);
  const IpcHandle handle = HandleOf(memory);
  REQUIRE(cuMemFree_v2(memory) == Result::kSuccess);
  Peer peer(EnvironmentOf(driver));
  CHECK(peer.Open(handle) == static_cast<int>(Result::kInvalidHandle));
}

TEST_CASE("a new allocation at a freed address has a new handle, or the same where asked for") {
  const FreshDriver driver;
  CurrentDevice device;
  const bool reuses = GENERATE(false, true);
  if (reuses) fakecuda_set("FAKECUDA_REUSE_HANDLE", "1");
  const DevicePointer old_memory = device.Allocate(kSize);
  const IpcHandle old_handle = HandleOf(old_memory);
  Peer importer(EnvironmentOf(driver));
  REQUIRE(importer.Open(old_handle) == 0);
  REQUIRE(importer.Poke(0, 1) == 0);
  REQUIRE(cuMemFree_v2(old_memory) == Result::kSuccess);

  const DevicePointer memory = device.Allocate(kSize);
  CHECK(memory == old_memory);
  const IpcHandle handle = HandleOf(memory);
  CHECK((ToHex(handle) == ToHex(old_handle)) == reuses);
  // Who has the old memory keeps it; who opens its handle late gets the new.
  CHECK(importer.Peek(0) == 1);
  Peer late(EnvironmentOf(driver));
  CHECK(late.Open(old_handle) == (reuses ? 0 : static_cast<int>(Result::kInvalidHandle)));
  if (reuses) CHECK(late.Peek(0) == 0xA5);
  std::string used;
  REQUIRE(late.Do("used", &used) == 0);
  CHECK(used == std::to_string(2 * kSize));
  CHECK(cuMemFree_v2(memory) == Result::kSuccess);
}

TEST_CASE("the memory of a device is shared by all processes") {
  const FreshDriver driver;
  fakecuda_set("FAKECUDA_MEMORY", std::to_string(2 * kSize).c_str());
  CurrentDevice device;
  auto environment = EnvironmentOf(driver);
  environment.push_back("FAKECUDA_MEMORY=" + std::to_string(2 * kSize));
  Peer peer(environment);
  const DevicePointer memory = device.Allocate(kSize);
  CHECK(peer.Do("make " + std::to_string(kSize)) == 0);
  DevicePointer more = 0;
  CHECK(cuMemAlloc_v2(&more, 1) == Result::kOutOfMemory);
  peer.Kill();
  REQUIRE(cuMemAlloc_v2(&more, 1) == Result::kSuccess);
  CHECK(cuMemFree_v2(more) == Result::kSuccess);
  CHECK(cuMemFree_v2(memory) == Result::kSuccess);
}

}  // namespace
}  // namespace fakecuda
