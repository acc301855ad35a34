#include "tests/gpu/questions/peer.h"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "tests/gpu/questions/gpu.h"
#include "tests/gpu/questions/semaphore.h"
#include "tests/gpu/questions/spin.h"
#include "tests/gpu/questions/virtual_memory.h"

namespace kvpool::questions {
namespace {

using Words = std::istringstream;

std::string ToHex(const cuda::IpcHandle& handle) {
  return absl::BytesToHexString({handle.bytes, sizeof(handle.bytes)});
}

cuda::IpcHandle FromHex(const std::string& hex) {
  const std::string bytes = absl::HexStringToBytes(hex);
  cuda::IpcHandle handle{};
  std::memcpy(handle.bytes, bytes.data(), std::min(bytes.size(), sizeof(handle.bytes)));
  return handle;
}

// The peer's side.
class Server {
 public:
  explicit Server(std::unique_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}

  std::string Do(const std::string& line) {
    static const std::map<std::string, std::string (Server::*)(Words&)> kCommands = {
        {"make", &Server::Make},
        {"free", &Server::Free},
        {"open", &Server::Open},
        {"close", &Server::Close},
        {"leave", &Server::Leave},
        {"enter", &Server::Enter},
        {"open_elsewhere", &Server::OpenElsewhere},
        {"fill", &Server::Fill},
        {"peek", &Server::Peek},
        {"spin", &Server::Spin},
        {"fork", &Server::Fork},
        {"attribute", &Server::Attribute},
        {"await", &Server::Await},
        {"done", &Server::Done},
        {"finish", &Server::Finish},
        {"export_fd", &Server::ExportFd},
        {"write_read_only", &Server::WriteReadOnly},
    };
    Words words(line);
    std::string command;
    words >> command;
    const auto found = kCommands.find(command);
    return found == kCommands.end() ? "what?" : (this->*found->second)(words);
  }

 private:
  const cuda::Api& api() const { return gpu_->api(); }

  // A reply: `payload` is added where `result` is success.
  std::string ReplyOf(Result result, const std::string& payload = "") const {
    const std::string text = gpu_->Text(result);
    return result != Result::kSuccess || payload.empty() ? text : absl::StrCat(text, " ", payload);
  }

  std::string Make(Words& words) {
    words >> size_;
    Result result = api().cuMemAlloc(&memory_, size_);
    if (result != Result::kSuccess) return ReplyOf(result);
    cuda::IpcHandle handle{};
    result = api().cuIpcGetMemHandle(&handle, memory_);
    return ReplyOf(result, ToHex(handle));
  }

  std::string Free(Words& /*words*/) { return ReplyOf(api().cuMemFree(memory_)); }

  std::string Open(Words& words) {
    std::string hex;
    words >> hex;
    DevicePointer opened = 0;
    Result result = api().cuIpcOpenMemHandle(&opened, FromHex(hex), cuda::kIpcLazyEnablePeerAccess);
    if (result != Result::kSuccess) return ReplyOf(result);
    memory_ = opened;
    size_t size = 0;
    result = api().cuMemGetAddressRange(nullptr, &size, memory_);
    size_ = size;
    return ReplyOf(result, absl::StrCat(absl::Hex(memory_)));
  }

  std::string Close(Words& /*words*/) { return ReplyOf(api().cuIpcCloseMemHandle(memory_)); }

  std::string Leave(Words& /*words*/) {
    cuda::Context context = nullptr;
    return ReplyOf(api().cuCtxPopCurrent(&context));
  }

  std::string Enter(Words& /*words*/) {
    return ReplyOf(api().cuCtxPushCurrent(gpu_->context()->handle()));
  }

  std::string OpenElsewhere(Words& words) {
    Result (*create)(cuda::Context*, unsigned int, cuda::Ordinal) = nullptr;
    if (!FindCall("cuCtxCreate_v2", create)) return "the driver has no cuCtxCreate_v2";
    cuda::Context context = nullptr;  // Current from now on; it ends with the process.
    const Result result = create(&context, 0, gpu_->context()->entry().ordinal);
    if (result != Result::kSuccess) return "cuCtxCreate: " + ReplyOf(result);
    const std::string reply = Open(words);
    api().cuCtxPopCurrent(&context);
    return reply;
  }

  std::string Fill(Words& words) {
    unsigned int value = 0;
    words >> value;
    return ReplyOf(gpu_->Fill(memory_, static_cast<uint8_t>(value), size_));
  }

  std::string Peek(Words& /*words*/) {
    uint8_t byte = 0;
    const Result result = gpu_->Read(memory_, &byte, 1);
    return ReplyOf(result, std::to_string(byte));
  }

  std::string Spin(Words& words) {
    int64_t milliseconds = 0;
    words >> milliseconds;
    return ReplyOf(StartSpin(*gpu_, memory_, std::chrono::milliseconds(milliseconds)));
  }

  std::string Fork(Words& /*words*/) {
    const pid_t child = fork();
    if (child == 0) {
      // Its parent's end is to be seen by the pipes.
      close(STDIN_FILENO);
      close(STDOUT_FILENO);
      alarm(10);
      while (true) pause();
    }
    return child < 0 ? "fork fails" : "0";
  }

  std::string Attribute(Words& words) {
    int number = 0;
    words >> number;
    int value = 0;
    const Result result = api().cuDeviceGetAttribute(&value, static_cast<cuda::Attribute>(number),
                                                     gpu_->context()->entry().ordinal);
    return ReplyOf(result, std::to_string(value));
  }

  std::string Await(Words& words) {
    uint64_t value = 0;
    words >> value;
    return ReplyOf(AwaitValue(*gpu_, memory_, value));
  }

  std::string Done(Words& /*words*/) { return ReplyOf(QueryStream(*gpu_)); }

  std::string Finish(Words& /*words*/) { return ReplyOf(gpu_->Synchronize()); }

  std::string ExportFd(Words& words) {
    int socket = -1;
    words >> socket;
    return MakeAndSendFd(*gpu_, /*value=*/7, socket);
  }

  std::string WriteReadOnly(Words& /*words*/) { return WriteWhereReadingIsAllowed(*gpu_); }

  const std::unique_ptr<Gpu> gpu_;
  DevicePointer memory_ = 0;  // What was made or opened last,
  uint64_t size_ = 0;         // and its bytes.
};

test::ChildProcess::Options ProcessOptions(const Peer::Options& options) {
  std::vector<std::string> arguments{"/proc/self/exe"};
  if (options.namespaced_pid.has_value()) {
    arguments.insert(arguments.end(), {"--namespaced", std::to_string(*options.namespaced_pid)});
  }
  arguments.emplace_back("--peer");
  return {.arguments = arguments,
          .environment = options.environment,
          .stderr_path = {},
          .uid = options.uid};
}

}  // namespace

Peer::Peer(const Options& options) : process_(ProcessOptions(options)) {}

Reply Peer::Do(const std::string& command) {
  Send(command);
  return Receive();
}

void Peer::Send(const std::string& command) {
  if (!is_there_ && failure_.empty()) {
    // Its first line says that it has the GPU, or why not.
    const std::string line = process_.ReadLine().value_or(Reply().text);
    is_there_ = line == "ready";
    if (!is_there_) failure_ = line;
  }
  if (failure_.empty() && !process_.IsRunning()) failure_ = Reply().text;
  if (failure_.empty()) process_.WriteLine(command);
}

Reply Peer::Receive() {
  if (!failure_.empty()) return {.text = failure_};
  return {.text = process_.ReadLine().value_or(Reply().text)};
}

void Peer::AwaitHangup() {
  while (process_.ReadLine().has_value()) {
  }
}

int RunPeer() {
  auto gpu = Gpu::Open();
  std::cout << (gpu.ok() ? "ready" : std::string(gpu.status().message())) << std::endl;
  if (!gpu.ok()) return 1;
  Server server(*std::move(gpu));
  for (std::string line; std::getline(std::cin, line);) std::cout << server.Do(line) << std::endl;
  return 0;
}

}  // namespace kvpool::questions
