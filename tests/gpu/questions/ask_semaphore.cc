// Streams of two processes that wait for numbers in memory that they share.
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "tests/gpu/questions/peer.h"
#include "tests/gpu/questions/question.h"
#include "tests/gpu/questions/semaphore.h"
#include "tests/gpu/questions/sharing.h"

namespace kvpool::questions {
namespace {

using Clock = std::chrono::steady_clock;
using OnStream = Result(cuda::Stream stream, DevicePointer address, uint64_t value,
                        unsigned int flags);

Result CallOnStream(const char* name, const Gpu& gpu, DevicePointer address, uint64_t value) {
  OnStream* call = nullptr;
  if (!FindCall(name, call)) return Result::kNotFound;
  // 0: the default way to write, and to wait until it is the value or later.
  return call(gpu.stream(), address, value, /*flags=*/0);
}

// Whether the waiter's stream goes on within that time.
bool GoesOn(Peer& waiter, std::chrono::milliseconds within) {
  const auto end = Clock::now() + within;
  while (Clock::now() < end) {
    if (waiter.Do("done").ok()) return true;
  }
  return false;
}

// How long a write takes to wake who waits, there and back.
void SayWakeTime(const Gpu& gpu, Peer& waiter, DevicePointer page) {
  const Reply waits = waiter.Do("await 1");
  if (!waits.ok()) return Say("cuStreamWaitValue64: " + waits.text);
  if (GoesOn(waiter, std::chrono::milliseconds(50))) return Say("the wait does not wait");
  waiter.Send("finish");
  const auto begin = Clock::now();
  const Result written = WriteValue(gpu, page, 1);
  if (written != Result::kSuccess) return Say("cuStreamWriteValue64: " + gpu.Text(written));
  const Reply done = waiter.Receive();
  const std::chrono::duration<double, std::micro> taken = Clock::now() - begin;
  Say(absl::StrFormat("a write wakes the other process: %s, after %.0f us with both pipes",
                      done.text, taken.count()));
}

}  // namespace

Result AwaitValue(const Gpu& gpu, DevicePointer address, uint64_t value) {
  return CallOnStream("cuStreamWaitValue64_v2", gpu, address, value);
}

Result WriteValue(const Gpu& gpu, DevicePointer address, uint64_t value) {
  return CallOnStream("cuStreamWriteValue64_v2", gpu, address, value);
}

Result QueryStream(const Gpu& gpu) {
  Result (*query)(cuda::Stream) = nullptr;
  return FindCall("cuStreamQuery", query) ? query(gpu.stream()) : Result::kNotFound;
}

bool HasSemaphores() {
  return FindSymbol("cuStreamWaitValue64_v2") != nullptr &&
         FindSymbol("cuStreamWriteValue64_v2") != nullptr && FindSymbol("cuStreamQuery") != nullptr;
}

void AskSemaphore() {
  const auto gpu = Gpu::OpenOrSay();
  if (gpu == nullptr) return;
  if (!HasSemaphores()) return SayNotAsked("the driver has no cuStreamWaitValue64_v2");
  Peer waiter;
  SharedPage page(*gpu, kPage);
  if (!page.Open(waiter)) return;
  SayWakeTime(*gpu, waiter, page.address());

  // A plain copy of the awaited number, and after it a write.
  if (!waiter.Do("await 2").ok()) return Say("a second wait is refused");
  const uint64_t two = 2;
  const Result copied = gpu->Write(page.address(), &two, sizeof(two));
  const bool is_woken = GoesOn(waiter, std::chrono::milliseconds(500));
  Say(absl::StrCat("a copy of the number (", gpu->Text(copied), ") ",
                   is_woken ? "wakes it as well" : "does not wake it"));
  if (!is_woken) WriteValue(*gpu, page.address(), two);
  if (!GoesOn(waiter, std::chrono::milliseconds(500))) return Say("nor does a write");

  // What frees whoever waits for any number.
  if (!waiter.Do("await 100").ok()) return Say("a third wait is refused");
  WriteValue(*gpu, page.address(), static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  Say(GoesOn(waiter, std::chrono::milliseconds(500)) ? "2^63 - 1 frees who waits for 100"
                                                     : "2^63 - 1 does not free who waits for 100");
}

}  // namespace kvpool::questions
