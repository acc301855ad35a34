// Calls of every method of the three services: messages that are messages, right and wrong.
#include <cstddef>
#include <cstdint>
#include <utility>

#include <spdlog/spdlog.h>

#include "tests/fuzz/calls.pb.h"
#include "tests/fuzz/message_mutator.h"
#include "tests/fuzz/served_calls.h"

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  kvpool::fuzz::Calls calls;
  return kvpool::test::MutateMessage(calls, data, size, max_size, seed);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* first, size_t first_size,
                                            const uint8_t* second, size_t second_size, uint8_t* out,
                                            size_t max_size, unsigned int /*seed*/) {
  kvpool::fuzz::Calls calls;
  return kvpool::test::CrossMessages(calls, first, first_size, second, second_size, out, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvpool::fuzz::Calls calls;
  if (!calls.ParseFromArray(data, static_cast<int>(size))) return -1;
  // Never taken down: gRPC's threads outlive what a static object could.
  static auto& served = *[] {
    spdlog::set_level(spdlog::level::off);
    return new kvpool::test::ServedCalls();
  }();
  served.Run(std::move(calls));
  return 0;
}
