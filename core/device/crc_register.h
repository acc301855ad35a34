#pragma once

#include <cstdint>

namespace kvpool {

// The register of a CRC32C that starts as 0 and is not inverted, as the sum kernel gives one for
// each part: a linear function of the bytes, so that those of neighbours can be put together.

// The register after `crc`'s bytes and then the `next_bytes` ones of `next`. As well, the CRC32C of
// both where the two are finished ones.
uint32_t JoinCrc(uint32_t crc, uint32_t next, uint64_t next_bytes);

// The CRC32C, as it is told, of the `bytes` ones of a register.
uint32_t FinishCrc(uint32_t crc, uint64_t bytes);

}  // namespace kvpool
