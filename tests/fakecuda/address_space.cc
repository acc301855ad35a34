#include "tests/fakecuda/address_space.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "tests/fakecuda/settings.h"

namespace fakecuda {
namespace {

constexpr size_t kReservedBytes = size_t{64} << 30;
// What allocations are multiples of, and begin at: the real driver shares whole pages of this
// size only.
constexpr size_t kPage = size_t{2} << 20;

size_t AlignUp(size_t size) { return (size + kPage - 1) / kPage * kPage; }

DevicePointer ReserveAddresses() {
  void* reserved = mmap(nullptr, kReservedBytes + kPage, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) std::abort();
  return AlignUp(reinterpret_cast<DevicePointer>(reserved));
}

// What a handle's 64 bytes are.
struct HandleBytes {
  uint64_t magic;
  Uuid device;
  int64_t driver_pid;  // What is compared with the importer's.
  int64_t pid;
  uint64_t address;
  uint64_t nonce;
  uint64_t device_index;
};
static_assert(sizeof(HandleBytes) == sizeof(IpcHandle));
constexpr uint64_t kMagic = 0x6B65'6875'6461'6661;

std::string NameOf(uint64_t device, int64_t pid, uint64_t address, uint64_t nonce) {
  return std::to_string(device) + "-" + std::to_string(pid) + "-" + std::to_string(address) + "-" +
         std::to_string(nonce);
}

}  // namespace

int64_t DriverPid() {
  return static_cast<int64_t>(
      TheSettings().GetNumber("FAKECUDA_PID", static_cast<uint64_t>(getpid())));
}

AddressSpace::AddressSpace() : begin_(ReserveAddresses()) {}

Result AddressSpace::Allocate(ContextState& context, size_t size, DevicePointer* pointer) {
  if (size == 0 || pointer == nullptr) return Result::kInvalidValue;
  const std::lock_guard lock(mutex_);
  if (size > kReservedBytes) return Result::kOutOfMemory;
  const auto address = TakeAddresses(AlignUp(size));
  if (!address.has_value()) return Result::kOutOfMemory;
  const bool reuses = TheSettings().GetNumber("FAKECUDA_REUSE_HANDLE", 0) == 1;
  const uint64_t nonce = reuses ? 0 : next_nonce_++;
  const std::string name = NameOf(context.index(), getpid(), *address, nonce);
  const auto file = BackingStore::Make(context.index(), name, AlignUp(size));
  if (!file.has_value()) return Result::kOutOfMemory;
  allocations_.emplace(*address, Allocation{.device = context.index(),
                                            .size = size,
                                            .file = *file,
                                            .nonce = nonce,
                                            .imported_name = {},
                                            .opens = 0});
  *pointer = *address;
  return Result::kSuccess;
}

Result AddressSpace::Free(DevicePointer pointer) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(pointer);
  if (found == allocations_.end() || !found->second.imported_name.empty()) {
    return Result::kInvalidValue;
  }
  BackingStore::Close(found->second.file);
  allocations_.erase(found);
  return Result::kSuccess;
}

Result AddressSpace::GetRange(DevicePointer pointer, DevicePointer* base, size_t* size) const {
  const std::lock_guard lock(mutex_);
  DevicePointer begin = 0;
  const Allocation* allocation = Find(pointer, 1, &begin);
  if (allocation == nullptr) return Result::kInvalidValue;
  if (base != nullptr) *base = begin;
  if (size != nullptr) *size = allocation->size;
  return Result::kSuccess;
}

Result AddressSpace::Export(DevicePointer pointer, IpcHandle* handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(pointer);
  if (handle == nullptr || found == allocations_.end() || !found->second.imported_name.empty()) {
    return Result::kInvalidValue;
  }
  const HandleBytes bytes{.magic = kMagic,
                          .device = UuidOf(found->second.device, /*of_gpu=*/false),
                          .driver_pid = DriverPid(),
                          .pid = getpid(),
                          .address = pointer,
                          .nonce = found->second.nonce,
                          .device_index = found->second.device};
  std::memcpy(handle, &bytes, sizeof(bytes));
  return Result::kSuccess;
}

Result AddressSpace::Import(ContextState& context, const IpcHandle& handle,
                            DevicePointer* pointer) {
  HandleBytes bytes;
  std::memcpy(&bytes, &handle, sizeof(bytes));
  if (bytes.magic != kMagic || pointer == nullptr) return Result::kInvalidValue;
  // The driver compares the numbers, whatever they are numbers of.
  if (bytes.driver_pid == DriverPid()) return Result::kInvalidContext;
  if (bytes.device_index != context.index()) return Result::kPeerAccessUnsupported;
  const std::string name = NameOf(bytes.device_index, bytes.pid, bytes.address, bytes.nonce);
  const std::lock_guard lock(mutex_);
  for (auto& [address, allocation] : allocations_) {
    if (allocation.imported_name != name) continue;
    ++allocation.opens;
    *pointer = address;
    return Result::kSuccess;
  }
  const auto file = BackingStore::Import(name);
  if (!file.has_value()) return Result::kInvalidHandle;
  const auto address = TakeAddresses(AlignUp(file->size));
  if (!address.has_value()) {
    BackingStore::Close(*file);
    return Result::kMapFailed;
  }
  allocations_.emplace(*address, Allocation{.device = context.index(),
                                            .size = file->size,
                                            .file = *file,
                                            .nonce = bytes.nonce,
                                            .imported_name = name,
                                            .opens = 1});
  *pointer = *address;
  return Result::kSuccess;
}

Result AddressSpace::CloseImport(DevicePointer pointer) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(pointer);
  if (found == allocations_.end() || found->second.imported_name.empty()) {
    return Result::kInvalidValue;
  }
  if (--found->second.opens > 0) return Result::kSuccess;
  BackingStore::Close(found->second.file);
  allocations_.erase(found);
  return Result::kSuccess;
}

void* AddressSpace::AllocateHost(size_t size) {
  constexpr size_t kHostPage = 4096;
  const size_t aligned = (size + kHostPage - 1) / kHostPage * kHostPage;
  void* const pointer = std::aligned_alloc(kHostPage, aligned);
  if (pointer == nullptr) return nullptr;
  const std::lock_guard lock(mutex_);
  host_.emplace(reinterpret_cast<DevicePointer>(pointer), size);
  return pointer;
}

bool AddressSpace::FreeHost(void* pointer) {
  {
    const std::lock_guard lock(mutex_);
    if (host_.erase(reinterpret_cast<DevicePointer>(pointer)) == 0) return false;
  }
  std::free(pointer);
  return true;
}

std::byte* AddressSpace::Translate(DevicePointer address, size_t size) const {
  const std::lock_guard lock(mutex_);
  DevicePointer base = 0;
  const Allocation* allocation = Find(address, size, &base);
  if (allocation == nullptr) return nullptr;
  return static_cast<std::byte*>(allocation->file.data) + (address - base);
}

std::byte* AddressSpace::TranslateAny(DevicePointer address, size_t size) const {
  if (IsDeviceAddress(address)) return Translate(address, size);
  const std::lock_guard lock(mutex_);
  auto found = host_.upper_bound(address);
  if (found == host_.begin()) return nullptr;
  --found;
  const size_t offset = address - found->first;
  if (offset > found->second || size > found->second - offset) return nullptr;
  return reinterpret_cast<std::byte*>(address);
}

bool AddressSpace::IsDeviceAddress(DevicePointer address) const {
  return address >= begin_ && address - begin_ < kReservedBytes;
}

uint64_t AddressSpace::allocation_count() const { return CountOf(/*imported=*/false); }
uint64_t AddressSpace::import_count() const { return CountOf(/*imported=*/true); }

uint64_t AddressSpace::host_count() const {
  const std::lock_guard lock(mutex_);
  return host_.size();
}

std::optional<DevicePointer> AddressSpace::TakeAddresses(size_t size) const {
  DevicePointer address = begin_;
  for (const auto& [base, allocation] : allocations_) {
    if (base - address >= size) return address;
    address = base + AlignUp(allocation.size);
  }
  if (kReservedBytes - (address - begin_) < size) return std::nullopt;
  return address;
}

const AddressSpace::Allocation* AddressSpace::Find(DevicePointer address, size_t size,
                                                   DevicePointer* base) const {
  auto found = allocations_.upper_bound(address);
  if (found == allocations_.begin()) return nullptr;
  --found;
  const size_t offset = address - found->first;
  if (offset > found->second.size || size > found->second.size - offset) return nullptr;
  *base = found->first;
  return &found->second;
}

uint64_t AddressSpace::CountOf(bool imported) const {
  const std::lock_guard lock(mutex_);
  uint64_t count = 0;
  for (const auto& [address, allocation] : allocations_) {
    if (allocation.imported_name.empty() != imported) ++count;
  }
  return count;
}

AddressSpace& TheAddressSpace() {
  static auto& space = *new AddressSpace();
  return space;
}

}  // namespace fakecuda
