#pragma once

#include <string>

#include "tests/gpu/questions/gpu.h"
#include "tests/gpu/questions/peer.h"

namespace kvpool::questions {

// Memory of this process, zero at first, for peers to open. Freed when destroyed.
class SharedPage {
 public:
  SharedPage(const Gpu& gpu, uint64_t size_bytes);
  ~SharedPage();

  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;

  // Whether `peer` could open it; says why not as the answer.
  bool Open(Peer& peer) const;

  // 0 where there is none.
  DevicePointer address() const { return address_; }

 private:
  const Gpu& gpu_;
  DevicePointer address_ = 0;
  std::string command_;  // "open" and the handle, or nothing.
};

// "MiB" of a difference of free bytes.
std::string MibBetween(uint64_t less_bytes, uint64_t more_bytes);

}  // namespace kvpool::questions
