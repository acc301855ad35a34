#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/owned_fd.h"
#include "core/ids.h"

namespace kvpool::test {

// A block that one worker offers another, and what is written in it.
struct Offer {
  BlockRef block;
  uint64_t stamp = 0;
};

// A worker's box among those in a directory, numbered from 0: offers are whole or not there, even
// where their sender is killed. The next worker of a number takes its box over. Not thread-safe.
class Mailbox {
 public:
  Mailbox(std::string directory, uint32_t number);

  // Dropped where that box is full or not there.
  void Send(uint32_t number, const Offer& offer);
  std::optional<Offer> Receive();

 private:
  std::string Path(uint32_t number) const;

  const std::string directory_;
  client::OwnedFd socket_;
};

}  // namespace kvpool::test
