// Another process that uses the fake driver, told what to do by lines on its standard input. It
// answers each with one line: a result's number, and what else there is.
//
//   make SIZE      allocates, and answers with the handle too
//   free           frees it
//   open HANDLE    imports
//   close          undoes the import
//   peek OFFSET    a byte of what was made or opened last, as a number
//   poke OFFSET VALUE
//   used           how many bytes of the device are
#include <cstdint>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>

#include "tests/fakecuda/api.h"
#include "tests/fakecuda/hex.h"

namespace {

// What this process has of the device.
struct Peer {
  Stream stream = nullptr;
  DevicePointer memory = 0;
};

int NumberOf(Result result) { return static_cast<int>(result); }

// One command's answer.
std::string Answer(Peer& peer, const std::string& line) {
  std::istringstream words(line);
  std::string command;
  words >> command;
  std::ostringstream answer;
  if (command == "make") {
    size_t size = 0;
    words >> size;
    IpcHandle handle{};
    Result result = cuMemAlloc_v2(&peer.memory, size);
    if (result == Result::kSuccess) result = cuIpcGetMemHandle(&handle, peer.memory);
    answer << NumberOf(result) << ' ' << fakecuda::ToHex(handle);
  } else if (command == "free") {
    answer << NumberOf(cuMemFree_v2(peer.memory));
  } else if (command == "open") {
    std::string hex;
    words >> hex;
    answer << NumberOf(cuIpcOpenMemHandle_v2(&peer.memory, fakecuda::FromHex(hex), 1));
  } else if (command == "close") {
    answer << NumberOf(cuIpcCloseMemHandle(peer.memory));
  } else if (command == "peek") {
    uint64_t offset = 0;
    words >> offset;
    uint8_t byte = 0;
    Result result = cuMemcpyDtoHAsync_v2(&byte, peer.memory + offset, 1, peer.stream);
    if (result == Result::kSuccess) result = cuStreamSynchronize(peer.stream);
    answer << NumberOf(result) << ' ' << static_cast<int>(byte);
  } else if (command == "poke") {
    uint64_t offset = 0;
    int value = 0;
    words >> offset >> value;
    cuMemsetD8Async(peer.memory + offset, static_cast<unsigned char>(value), 1, peer.stream);
    answer << NumberOf(cuStreamSynchronize(peer.stream));
  } else if (command == "used") {
    size_t free = 0;
    size_t total = 0;
    answer << NumberOf(cuMemGetInfo_v2(&free, &total)) << ' ' << total - free;
  } else {
    answer << "what?";
  }
  return answer.str();
}

}  // namespace

int main() {
  Peer peer;
  Context context = nullptr;
  if (cuInit(0) != Result::kSuccess || cuDevicePrimaryCtxRetain(&context, 0) != Result::kSuccess ||
      cuCtxPushCurrent_v2(context) != Result::kSuccess ||
      cuStreamCreateWithPriority(&peer.stream, 1, 0) != Result::kSuccess) {
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << Answer(peer, line) << std::endl;
  }
  cuStreamDestroy_v2(peer.stream);
  return 0;
}
