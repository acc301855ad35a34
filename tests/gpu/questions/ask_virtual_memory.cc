// Memory that a file descriptor stands for: whether the descriptor alone keeps it, and whether it
// can be mapped for reading alone.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "tests/gpu/questions/peer.h"
#include "tests/gpu/questions/question.h"
#include "tests/gpu/questions/virtual_memory.h"

namespace kvpool::questions {
namespace {

// CUmemGenericAllocationHandle, CUmemLocation, CUmemAllocationProp and CUmemAccessDesc.
using Allocation = unsigned long long;
struct Location {
  int type = 1;  // A device.
  int id = 0;
};
struct AllocationFlags {
  unsigned char compression_type = 0;
  unsigned char gpu_direct_capable = 0;
  unsigned short usage = 0;
  std::array<unsigned char, 4> reserved{};
};
constexpr int kPosixFd = 1;  // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
struct Properties {
  int type = 1;  // Pinned.
  int handle_types = kPosixFd;
  Location location;
  void* windows = nullptr;
  AllocationFlags flags;
};
static_assert(sizeof(Properties) == 32);
enum class Access : int { kRead = 1, kReadWrite = 3 };
struct AccessDescription {
  Location location;
  Access access = Access::kReadWrite;
};
static_assert(sizeof(AccessDescription) == 12);

struct Calls {
  Result (*create)(Allocation*, size_t, const Properties*, unsigned long long) = nullptr;
  Result (*reserve)(DevicePointer*, size_t, size_t, DevicePointer, unsigned long long) = nullptr;
  Result (*map)(DevicePointer, size_t, size_t, Allocation, unsigned long long) = nullptr;
  Result (*set_access)(DevicePointer, size_t, const AccessDescription*, size_t) = nullptr;
  Result (*export_handle)(void*, Allocation, int, unsigned long long) = nullptr;
  Result (*import_handle)(Allocation*, void*, int) = nullptr;

  bool Find() {
    return FindCall("cuMemCreate", create) && FindCall("cuMemAddressReserve", reserve) &&
           FindCall("cuMemMap", map) && FindCall("cuMemSetAccess", set_access) &&
           FindCall("cuMemExportToShareableHandle", export_handle) &&
           FindCall("cuMemImportFromShareableHandle", import_handle);
  }
};

// Allocations and mappings of one process: what is made stays until it ends. A step that fails
// leaves its name and result in `failure`, and all later ones undone.
class VirtualMemory {
 public:
  explicit VirtualMemory(const Gpu& gpu) : gpu_(gpu) {
    if (!calls_.Find()) failure_ = "the driver has no cuMemCreate";
    location_.id = gpu.context()->entry().ordinal;
  }

  Allocation Create() {
    Allocation allocation = 0;
    Properties properties;
    properties.location = location_;
    Try("cuMemCreate", [&] { return calls_.create(&allocation, kPage, &properties, 0); });
    return allocation;
  }

  DevicePointer Map(Allocation allocation, Access access) {
    DevicePointer address = 0;
    Try("cuMemAddressReserve", [&] { return calls_.reserve(&address, kPage, 0, 0, 0); });
    Try("cuMemMap", [&] { return calls_.map(address, kPage, 0, allocation, 0); });
    const AccessDescription description{.location = location_, .access = access};
    Try("cuMemSetAccess", [&] { return calls_.set_access(address, kPage, &description, 1); });
    return address;
  }

  int Export(Allocation allocation) {
    int fd = -1;
    Try("cuMemExportToShareableHandle",
        [&] { return calls_.export_handle(&fd, allocation, kPosixFd, 0); });
    return fd;
  }

  Allocation Import(int fd) {
    Allocation allocation = 0;
    // The descriptor's number, in a pointer's clothes.
    auto* const handle = reinterpret_cast<void*>(static_cast<uintptr_t>(fd));
    Try("cuMemImportFromShareableHandle",
        [&] { return calls_.import_handle(&allocation, handle, kPosixFd); });
    return allocation;
  }

  void Fill(DevicePointer address, uint8_t value) {
    Try("cuMemsetD8Async", [&] { return gpu_.Fill(address, value, kPage); });
  }

  uint8_t Peek(DevicePointer address) {
    uint8_t byte = 0;
    Try("cuMemcpyAsync", [&] { return gpu_.Read(address, &byte, 1); });
    return byte;
  }

  const std::string& failure() const { return failure_; }

 private:
  template <typename Step>
  void Try(const char* name, Step step) {
    if (!failure_.empty()) return;
    const Result result = step();
    if (result != Result::kSuccess) failure_ = absl::StrCat(name, ": ", gpu_.Text(result));
  }

  const Gpu& gpu_;
  Calls calls_;
  Location location_;
  std::string failure_;
};

// One byte and the descriptor.
struct Message {
  Message() {
    text = {.iov_base = &byte, .iov_len = 1};
    header.msg_iov = &text;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  char byte = 0;
  iovec text{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
};

bool SendFd(int socket, int fd) {
  Message message;
  cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(fd));
  std::memcpy(CMSG_DATA(control), &fd, sizeof(fd));
  return sendmsg(socket, &message.header, 0) == 1;
}

// -1 where none came.
int ReceiveFd(int socket) {
  Message message;
  if (recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  if (control == nullptr || control->cmsg_type != SCM_RIGHTS) return -1;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(control), sizeof(fd));
  return fd;
}

}  // namespace

bool HasVirtualMemory() { return Calls().Find(); }

std::string MakeAndSendFd(const Gpu& gpu, uint8_t value, int socket) {
  VirtualMemory memory(gpu);
  const Allocation allocation = memory.Create();
  memory.Fill(memory.Map(allocation, Access::kReadWrite), value);
  const int fd = memory.Export(allocation);
  if (!memory.failure().empty()) return memory.failure();
  return SendFd(socket, fd) ? "0" : "the descriptor cannot be sent";
}

std::string WriteWhereReadingIsAllowed(const Gpu& gpu) {
  VirtualMemory memory(gpu);
  const Allocation allocation = memory.Create();
  memory.Fill(memory.Map(allocation, Access::kReadWrite), 7);
  const DevicePointer read_only = memory.Map(allocation, Access::kRead);
  const uint8_t read = memory.Peek(read_only);
  if (!memory.failure().empty()) return memory.failure();
  const Result written = gpu.Fill(read_only, 9, kPage);
  uint8_t after = 0;
  const Result then = gpu.Read(read_only, &after, 1);
  return absl::StrCat("0 reading gives ", read, ", writing ", gpu.Text(written),
                      ", reading after it ", gpu.Text(then),
                      then == Result::kSuccess ? absl::StrCat(" and ", after) : "");
}

void AskKeptFd() {
  std::array<int, 2> sockets{};
  // The exporter has its end by its number.
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()) != 0) return SayNotAsked("no sockets");
  int fd = -1;
  {
    Peer exporter;
    const Reply exported = exporter.Do(absl::StrCat("export_fd ", sockets[1]));
    if (!exported.ok()) return SayNotAsked(exported.text);
    fd = ReceiveFd(sockets[0]);
    exporter.Kill();
  }
  if (fd < 0) return Say("the descriptor did not come");
  // Not before: until now nothing but the descriptor held the memory.
  const auto gpu = Gpu::OpenOrSay();
  if (gpu == nullptr) return;
  VirtualMemory memory(*gpu);
  const uint8_t byte = memory.Peek(memory.Map(memory.Import(fd), Access::kReadWrite));
  close(fd);
  if (!memory.failure().empty()) return Say(memory.failure());
  Say(byte == 7 ? "its memory opens, and has what the exporter wrote"
                : absl::StrCat("its memory opens, with ", byte, " in place of 7"));
}

void AskReadOnlyMap() {
  const auto gpu = Gpu::OpenOrSay();
  if (gpu == nullptr) return;
  if (!HasVirtualMemory()) return SayNotAsked("the driver has no cuMemCreate");
  DevicePointer own = 0;
  if (gpu->api().cuMemAlloc(&own, kPage) != Result::kSuccess) return SayNotAsked("no memory");
  Peer writer;
  const Reply wrote = writer.Do("write_read_only");
  Say(wrote.ok() ? wrote.payload() : wrote.text);
  Say("another process's memset after it: " + gpu->Text(gpu->Fill(own, 1, kPage)));
}

}  // namespace kvpool::questions
