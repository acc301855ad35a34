// Files of request traces. The first byte says which format the rest is read as; what begins as an
// xz file does is read as one.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

#include "client/cli/replay/trace.h"
#include "tests/fuzz/finding.h"
#include "tests/fuzz/text_check.h"

namespace kvpool::test {
namespace {

using replay::Trace;
using replay::TraceFormat;
using replay::TraceRequest;

void CheckTrace(const Trace& trace, const TraceFormat& format) {
  size_t blocks = 0;
  auto last = std::chrono::milliseconds(0);
  for (const TraceRequest& request : trace.requests()) {
    Expect(request.time >= last && request.time <= Trace::kMaxTime, "times out of order or range");
    last = request.time;
    Expect(request.input_tokens <= Trace::kMaxTokens && request.output_tokens <= Trace::kMaxTokens,
           "more tokens than there may be");
    Expect(request.first_block == blocks, "blocks that are nobody's");
    Expect(request.block_count == request.input_tokens / format.block_tokens,
           "a block that is not full, or one too few");
    blocks += trace.blocks(request).size();
  }
  Expect(blocks == trace.block_count(), "blocks that are nobody's at the end");
}

}  // namespace
}  // namespace kvpool::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvpool::test;
  if (size == 0) return 0;
  // One for all inputs: making and unmapping one costs as much as reading it.
  static const int file = memfd_create("trace", MFD_CLOEXEC);
  Expect(file >= 0 && ftruncate(file, 0) == 0 &&
             pwrite(file, data + 1, size - 1, 0) == static_cast<ssize_t>(size - 1),
         "no file to write to");
  const TraceFormat& format =
      (data[0] & 1) != 0 ? kvpool::replay::kSmallBlockFormat : kvpool::replay::kMooncakeFormat;
  const std::string path = absl::StrCat("/proc/self/fd/", file);
  const auto trace = Trace::Read(path, format);
  if (trace.ok()) {
    CheckTrace(*trace, format);
  } else {
    CheckRefusal(trace.status(), path + ":");
  }
  return 0;
}
