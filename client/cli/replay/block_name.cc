#include "client/cli/replay/block_name.h"

#include <cstring>

namespace kvpool::replay {
namespace {

// Bytes from the least significant on, on every machine.
void PutBytes(uint64_t value, uint8_t* bytes) {
  for (size_t i = 0; i < sizeof(value); ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
}

// SplitMix64's finish: every bit of the result depends on every bit of `value`.
uint64_t Mix(uint64_t value) {
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9U;
  value = (value ^ value >> 27) * 0x94D049BB133111EBU;
  return value ^ value >> 31;
}

}  // namespace

PrefixKey BlockName::ToKey() const {
  PrefixKey key;
  PutBytes(chain, key.bytes.data());
  PutBytes(number, key.bytes.data() + sizeof(chain));
  return key;
}

std::string BlockName::ToHash() const {
  std::array<uint8_t, sizeof(chain) + sizeof(number)> bytes{};
  PutBytes(chain, bytes.data());
  PutBytes(number, bytes.data() + sizeof(chain));
  return {bytes.begin(), bytes.end()};
}

std::vector<BlockName> NameBlocks(std::span<const uint64_t> numbers) {
  std::vector<BlockName> names;
  names.reserve(numbers.size());
  uint64_t chain = 0;
  for (const uint64_t number : numbers) {
    // The constant, 2^64 over the golden ratio, keeps zeros apart by their place.
    chain = Mix(chain ^ (number + 0x9E3779B97F4A7C15U));
    names.push_back({.chain = chain, .number = number});
  }
  return names;
}

}  // namespace kvpool::replay
