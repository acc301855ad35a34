#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "core/device/cuda/cuda_abi.h"
#include "tests/fakecuda/backing_store.h"
#include "tests/fakecuda/contexts.h"

namespace fakecuda {

using kvpool::cuda::DevicePointer;
using kvpool::cuda::IpcHandle;

// This process's device addresses: what cuMemAlloc and cuIpcOpenMemHandle gave. They are in one
// range that is reserved and never accessible, so that the host crashes where it follows one; the
// bytes are mapped elsewhere, which only the driver knows. Freed addresses are used again first.
// Also knows the pinned host memory, which the device may touch. Thread-safe.
class AddressSpace {
 public:
  AddressSpace();

  Result Allocate(ContextState& context, size_t size, DevicePointer* pointer);
  // kInvalidValue unless `pointer` is the beginning of what Allocate gave.
  Result Free(DevicePointer pointer);
  // The allocation that an address is in, or kInvalidValue... by its beginning and size.
  Result GetRange(DevicePointer pointer, DevicePointer* base, size_t* size) const;

  Result Export(DevicePointer pointer, IpcHandle* handle) const;
  Result Import(ContextState& context, const IpcHandle& handle, DevicePointer* pointer);
  // Undoes one Import.
  Result CloseImport(DevicePointer pointer);

  void* AllocateHost(size_t size);
  // False unless AllocateHost gave it.
  bool FreeHost(void* pointer);

  // Where the device's bytes of [address, address + size) are; null unless all of them are in one
  // allocation.
  std::byte* Translate(DevicePointer address, size_t size) const;
  // As a kernel sees addresses: pinned host memory too.
  std::byte* TranslateAny(DevicePointer address, size_t size) const;
  // Whether it is any address of the device's, allocated or not.
  bool IsDeviceAddress(DevicePointer address) const;

  uint64_t allocation_count() const;
  uint64_t import_count() const;
  uint64_t host_count() const;

 private:
  struct Allocation {
    size_t device = 0;
    size_t size = 0;
    BackingStore::File file;
    uint64_t nonce = 0;
    std::string imported_name;  // Empty: allocated here.
    int opens = 0;
  };

  // Takes `size` addresses, at the first gap from the beginning. Holds mutex_.
  std::optional<DevicePointer> TakeAddresses(size_t size) const;
  const Allocation* Find(DevicePointer address, size_t size, DevicePointer* base) const;
  uint64_t CountOf(bool imported) const;

  const DevicePointer begin_;
  mutable std::mutex mutex_;
  uint64_t next_nonce_ = 1;
  std::map<DevicePointer, Allocation> allocations_;
  std::map<DevicePointer, size_t> host_;
};

AddressSpace& TheAddressSpace();

// What the driver takes this process's pid for.
int64_t DriverPid();

}  // namespace fakecuda
