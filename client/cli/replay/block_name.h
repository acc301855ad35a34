#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/ledger/prefix/prefix_key.h"

namespace kvpool::replay {

// What a block of a trace is called: its number there, and a mix of all the numbers up to it. So
// blocks of equal names follow the same blocks, and every process gives the same names.
struct BlockName {
  uint64_t chain = 0;
  uint64_t number = 0;

  bool operator==(const BlockName&) const = default;

  // As a ledger takes it: a key that is spread as a SHA-256 is.
  PrefixKey ToKey() const;
  // As the API takes it: a block hash of the caller's own, of 16 bytes.
  std::string ToHash() const;
};

// The names of a request's blocks, from the first on.
std::vector<BlockName> NameBlocks(std::span<const uint64_t> numbers);

}  // namespace kvpool::replay
