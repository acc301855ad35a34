#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/model/exhaustive/letter.h"
#include "tests/model/exhaustive/world.h"

namespace kvpool::test {

struct SearchResult {
  std::string fault;            // Empty: none was found.
  std::vector<Letter> calls{};  // That lead to the fault, as few as there can be.
  std::vector<size_t> states;   // How many different ones so many calls lead to, by that number.
  uint64_t call_count = 0;      // Calls made and checked.
};

// Makes every list of `depth` letters on a fresh World, breadth first. Of the lists that lead to
// one state, as World::Describe tells it, only the first goes on: so the first fault comes with a
// shortest list. States that differ in the numbers of blocks, generations, keys or sessions alone,
// or in the time, are one: what the ledger decides by the number of a block, where two were used at
// the same time, is tried one way. A ledger cannot be copied: each state is reached by its list
// from the start.
SearchResult Search(const WorldOptions& options, const std::vector<Letter>& letters, uint32_t depth,
                    Reached& reached);

}  // namespace kvpool::test
