#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "core/device/cuda/cuda_abi.h"
#include "tests/fakecuda/hex.h"
#include "tests/support/child_process.h"

namespace fakecuda {

// Another process that has the fake driver (peer_main.cc). Not thread-safe.
class Peer {
 public:
  // `environment` is beside the test's own; FAKECUDA_DIR must be in it.
  explicit Peer(const std::vector<std::string>& environment)
      : process_({.arguments = {FAKECUDA_PEER},
                  .environment = environment,
                  .stderr_path = {},
                  .uid = {}}) {}

  // The number with which the answer begins; `rest` is what follows it.
  int Do(const std::string& command, std::string* rest = nullptr) {
    process_.WriteLine(command);
    std::istringstream answer(process_.ReadLine().value_or("-1"));
    int result = -1;
    answer >> result;
    if (rest != nullptr) answer >> *rest;
    return result;
  }
  int Open(const kvpool::cuda::IpcHandle& handle) { return Do("open " + ToHex(handle)); }
  // The byte at `offset` of what it has, or a negative number.
  int Peek(uint64_t offset) {
    std::string byte;
    return Do("peek " + std::to_string(offset), &byte) == 0 ? std::stoi(byte) : -1;
  }
  int Poke(uint64_t offset, uint8_t value) {
    return Do("poke " + std::to_string(offset) + " " + std::to_string(value));
  }

  void Kill() { process_.Kill(); }
  pid_t pid() const { return process_.pid(); }

 private:
  kvpool::test::ChildProcess process_;
};

}  // namespace fakecuda
