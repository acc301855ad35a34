#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tests/integration/support/node.h"
#include "tests/support/raw_client.h"
#include "tests/support/raw_session.h"

namespace kvpool::test {

// An honest worker (of this process's own tenant) whose work nobody may disturb: it holds blocks
// with bytes of its own in them, and a guarantee of as many more. Not thread-safe.
class Witness {
 public:
  static constexpr uint32_t kHeld = 4;
  static constexpr uint32_t kGuaranteed = 8;

  Witness(Node& node, const std::string& pool);

  // Checks that it still has what it had, reads what it wrote, and can allocate what it was
  // promised.
  void Check();

  // Checks that each byte of its blocks is `byte` instead, as whoever maps the pool can do, and
  // writes its own again.
  void CheckOverwritten(char byte);

  void Close();

  RawSession& session() { return *session_; }
  uint64_t region_id() const { return session_->opened().regions(0).region_id(); }

 private:
  void Write();
  void CheckBytes(const std::function<char(const v1::BlockPiece& piece, size_t index)>& expected);

  RawClient* client_;  // The node's.
  std::unique_ptr<RawSession> session_;
  v1::Blocks blocks_;
};

}  // namespace kvpool::test
