#include "core/device/crc_register.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/memory/checksum.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool {
namespace {

// By the definition, a bit at a time.
uint32_t RegisterOf(std::span<const uint8_t> bytes) {
  uint32_t crc = 0;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
  }
  return crc;
}

TEST_CASE("a finished register is the CRC32C that everybody knows") {
  const std::string text = "123456789";
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  CHECK(FinishCrc(RegisterOf(bytes), bytes.size()) == 0xE3069283);
  CHECK(FinishCrc(0, 0) == 0);
  const std::vector<uint8_t> zeros(32);
  CHECK(FinishCrc(RegisterOf(zeros), zeros.size()) == 0x8A9136AA);
}

TEST_CASE("registers of neighbours are put together to the register of both") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  for (int step = 0; step < 300; ++step) {
    std::vector<uint8_t> bytes(random.Below(5000));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.Below(256));
    const size_t cut = random.Below(static_cast<uint32_t>(bytes.size() + 1));
    CAPTURE(seed, step, bytes.size(), cut);
    const auto all = std::span<const uint8_t>(bytes);
    CHECK(JoinCrc(RegisterOf(all.first(cut)), RegisterOf(all.subspan(cut)), bytes.size() - cut) ==
          RegisterOf(all));
    ChecksumBuilder host(Dtype::kRaw);
    host.Add(std::as_bytes(all));
    CHECK(FinishCrc(RegisterOf(all), bytes.size()) == host.Result().crc32c);
    // Finished ones as well.
    CHECK(JoinCrc(FinishCrc(RegisterOf(all.first(cut)), cut),
                  FinishCrc(RegisterOf(all.subspan(cut)), bytes.size() - cut),
                  bytes.size() - cut) == host.Result().crc32c);
  }
}

TEST_CASE("lengths of more than 32 bits are told apart") {
  // 2^33 zero bytes after a register, as twice 2^32.
  const uint64_t half = uint64_t{1} << 32;
  CHECK(JoinCrc(JoinCrc(12'345, 0, half), 0, half) == JoinCrc(12'345, 0, 2 * half));
  CHECK(JoinCrc(12'345, 0, half) != JoinCrc(12'345, 0, 2 * half));
}

}  // namespace
}  // namespace kvpool
