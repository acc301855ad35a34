#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/fuzz/calls.pb.h"

namespace kvpool::test {

// ServedCalls makes the calls of an input, on connections of a worker's and an operator's, to
// services that are real but for the daemon around them. Each input finds them as the one before
// did: a pool "p" of 32 blocks, two sessions in it.
//
// A text "s0" or "s1" in a request stands for the id of one of those sessions, "s2" and so on for
// those that the input opens.
//
// Expects that a call that is refused changes no count, that the pool's invariants hold after each,
// and that all is free once everybody has gone.
class ServedCalls {
 public:
  ServedCalls();
  ~ServedCalls();

  void Run(fuzz::Calls calls);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace kvpool::test
