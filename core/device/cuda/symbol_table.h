#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/device/cuda/driver_api.h"

namespace kvpool::cuda {

// SymbolTable finds the calls of an opened driver library by cuGetProcAddress: each by its name
// and by the version in which its declaration came to be, so that a later driver with another
// declaration of the same name still gives the one that is known here. A value.
class SymbolTable {
 public:
  // `handle` is dlopen's, of the file `library`. FAILED_PRECONDITION (DEVICE) where it has no
  // cuGetProcAddress: it is no CUDA driver, or one before 11.3.
  static absl::StatusOr<SymbolTable> Open(void* handle, const std::string& library);

  // Finds what any driver has and can be called before cuInit: errors' names, versions, cuInit.
  // Returns the name of one that is missing, empty where there is none.
  absl::string_view FindFirst(Api& api) const;

  // Finds the rest, as a driver of that version has it. Returns the name of a call that is
  // missing and cannot be done without, empty where there is none.
  absl::string_view FindAll(int driver_version, Api& api) const;

 private:
  SymbolTable(GetProcAddress* get, OldGetProcAddress* old_get) : get_(get), old_get_(old_get) {}

  // Sets `call`, null where the driver has it not, and returns whether it has.
  template <typename Call>
  bool Find(const char* name, int version, Call& call) const;

  GetProcAddress* get_;         // Null before CUDA 12.
  OldGetProcAddress* old_get_;  // One of the two at least is not null.
};

}  // namespace kvpool::cuda
