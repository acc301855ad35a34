#include "core/ledger/status.h"

namespace kvpool {

absl::string_view TraceOperationName(TraceOperation operation) {
  switch (operation) {
    case TraceOperation::kAlloc:
      return "alloc";
    case TraceOperation::kInc:
      return "inc";
    case TraceOperation::kDec:
      return "dec";
    case TraceOperation::kPublish:
      return "publish";
    case TraceOperation::kAcquire:
      return "acquire";
    case TraceOperation::kEvict:
      return "evict";
    case TraceOperation::kRelease:
      return "release";
    case TraceOperation::kQuarantine:
      return "quarantine";
    case TraceOperation::kFree:
      return "free";
  }
  return "unknown";
}

}  // namespace kvpool
