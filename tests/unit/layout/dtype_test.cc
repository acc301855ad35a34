#include "core/layout/dtype.h"

#include <cstdint>
#include <string>

#include "tests/support/catch.h"

namespace kvpool {
namespace {

struct SizeCase {
  Dtype dtype;
  uint64_t elements;
  uint64_t data_bytes;
  uint64_t scale_bytes;
};

TEST_CASE("BytesFor gives every format the bytes that the contract fixes") {
  const auto c = GENERATE(values<SizeCase>({
      {Dtype::kFp32, 8192, 32768, 0},
      {Dtype::kFp16, 8192, 16384, 0},
      {Dtype::kBf16, 8192, 16384, 0},
      {Dtype::kFp8, 8192, 8192, 0},
      {Dtype::kNvfp4, 8192, 4096, 512},
      {Dtype::kTurbo4, 8192, 4096, 512},
      {Dtype::kTurbo3, 8192, 3072, 512},
      {Dtype::kTurbo2, 8192, 2048, 512},
      {Dtype::kTurbo8, 8192, 8192, 1024},
      // One group of 16: 16 elements and their scale.
      {Dtype::kNvfp4, 16, 8, 1},
      {Dtype::kTurbo4, 16, 8, 1},
      {Dtype::kTurbo3, 16, 6, 1},
      {Dtype::kTurbo2, 16, 4, 1},
      {Dtype::kTurbo8, 16, 16, 2},
      // Formats without scales take any number.
      {Dtype::kFp8, 1, 1, 0},
      {Dtype::kBf16, 3, 6, 0},
      {Dtype::kFp32, 5, 20, 0},
  }));
  CAPTURE(std::string(DtypeName(c.dtype)), c.elements);
  const auto bytes = BytesFor(c.dtype, c.elements);
  REQUIRE(bytes.ok());
  CHECK(*bytes == SideBytes{c.data_bytes, c.scale_bytes});
}

TEST_CASE("BytesFor refuses elements that a format cannot hold, and says how many") {
  const auto refused = [](Dtype dtype, uint64_t elements, const std::string& part) {
    CAPTURE(std::string(DtypeName(dtype)), elements);
    const auto bytes = BytesFor(dtype, elements);
    REQUIRE(absl::IsInvalidArgument(bytes.status()));
    CHECK(std::string(bytes.status().message()).find(part) != std::string::npos);
  };
  for (const Dtype dtype :
       {Dtype::kNvfp4, Dtype::kTurbo8, Dtype::kTurbo4, Dtype::kTurbo3, Dtype::kTurbo2}) {
    refused(dtype, 24, "24 elements");
    refused(dtype, 8191, "8191 elements");
    refused(dtype, 0, "0 elements");
  }
  refused(Dtype::kFp8, 0, "0 elements");
}

TEST_CASE("BytesFor refuses bytes that overflow 64 bits and takes the most that do not") {
  constexpr uint64_t kMax = UINT64_MAX;
  CHECK(BytesFor(Dtype::kFp32, kMax / 4).ok());
  CHECK(absl::IsInvalidArgument(BytesFor(Dtype::kFp32, kMax / 4 + 1).status()));
  CHECK(BytesFor(Dtype::kBf16, kMax / 2).ok());
  CHECK(absl::IsInvalidArgument(BytesFor(Dtype::kBf16, kMax / 2 + 1).status()));
  CHECK(BytesFor(Dtype::kFp8, kMax).ok());

  // A group of turbo8 is 16 + 2 bytes.
  constexpr uint64_t kMostGroups = kMax / 18;
  const auto most = BytesFor(Dtype::kTurbo8, kMostGroups * 16);
  REQUIRE(most.ok());
  CHECK(*most == SideBytes{kMostGroups * 16, kMostGroups * 2});
  const auto over = BytesFor(Dtype::kTurbo8, (kMostGroups + 1) * 16);
  REQUIRE(absl::IsInvalidArgument(over.status()));
  CHECK(std::string(over.status().message()).find("overflow") != std::string::npos);

  // 3 bits times 2^63 elements pass 64 bits on the way, but the bytes do not.
  const auto turbo3 = BytesFor(Dtype::kTurbo3, uint64_t{1} << 63);
  REQUIRE(turbo3.ok());
  CHECK(*turbo3 == SideBytes{3ULL << 60, 1ULL << 59});
}

struct NameCase {
  const char* name;
  DtypePair pair;
  const char* canonical;
};

TEST_CASE("ParseDtype reads every format, pair and alias, and DtypePairName names it") {
  const auto c = GENERATE(values<NameCase>({
      {"fp32", {Dtype::kFp32, Dtype::kFp32}, "fp32"},
      {"fp16", {Dtype::kFp16, Dtype::kFp16}, "fp16"},
      {"bf16", {Dtype::kBf16, Dtype::kBf16}, "bf16"},
      {"fp8", {Dtype::kFp8, Dtype::kFp8}, "fp8"},
      {"nvfp4", {Dtype::kNvfp4, Dtype::kNvfp4}, "nvfp4"},
      {"turbo8", {Dtype::kTurbo8, Dtype::kTurbo8}, "turbo8"},
      {"turbo4", {Dtype::kTurbo4, Dtype::kTurbo4}, "turbo4"},
      {"turbo3", {Dtype::kTurbo3, Dtype::kTurbo3}, "turbo3"},
      {"turbo2", {Dtype::kTurbo2, Dtype::kTurbo2}, "turbo2"},
      {"raw", {Dtype::kRaw, Dtype::kRaw}, "raw"},
      {"turbo4k_turbo3v", {Dtype::kTurbo4, Dtype::kTurbo3}, "turbo4k_turbo3v"},
      {"turbo4k3v", {Dtype::kTurbo4, Dtype::kTurbo3}, "turbo4k_turbo3v"},
      {"turbo4k_turbo8v", {Dtype::kTurbo4, Dtype::kTurbo8}, "turbo4k_turbo8v"},
      {"turbo4k8v", {Dtype::kTurbo4, Dtype::kTurbo8}, "turbo4k_turbo8v"},
      {"turbo3k_turbo8v", {Dtype::kTurbo3, Dtype::kTurbo8}, "turbo3k_turbo8v"},
      {"turbo3k8v", {Dtype::kTurbo3, Dtype::kTurbo8}, "turbo3k_turbo8v"},
      {"bf16k_turbo4v", {Dtype::kBf16, Dtype::kTurbo4}, "bf16k_turbo4v"},
      {"bf16k4v", {Dtype::kBf16, Dtype::kTurbo4}, "bf16k_turbo4v"},
      {"bf16k_turbo3v", {Dtype::kBf16, Dtype::kTurbo3}, "bf16k_turbo3v"},
      {"bf16k3v", {Dtype::kBf16, Dtype::kTurbo3}, "bf16k_turbo3v"},
      {"bf16k_turbo2v", {Dtype::kBf16, Dtype::kTurbo2}, "bf16k_turbo2v"},
      {"bf16k2v", {Dtype::kBf16, Dtype::kTurbo2}, "bf16k_turbo2v"},
      {"fp8k_turbo4v", {Dtype::kFp8, Dtype::kTurbo4}, "fp8k_turbo4v"},
      {"fp8k4v", {Dtype::kFp8, Dtype::kTurbo4}, "fp8k_turbo4v"},
      {"fp8k_turbo3v", {Dtype::kFp8, Dtype::kTurbo3}, "fp8k_turbo3v"},
      {"fp8k3v", {Dtype::kFp8, Dtype::kTurbo3}, "fp8k_turbo3v"},
      {"fp8k_turbo2v", {Dtype::kFp8, Dtype::kTurbo2}, "fp8k_turbo2v"},
      {"fp8k2v", {Dtype::kFp8, Dtype::kTurbo2}, "fp8k_turbo2v"},
  }));
  CAPTURE(c.name);
  const auto pair = ParseDtype(c.name);
  REQUIRE(pair.ok());
  CHECK(*pair == c.pair);
  CHECK(std::string(DtypePairName(*pair)) == c.canonical);
}

TEST_CASE("ParseDtype refuses every other name and lists all that there are") {
  for (const char* name :
       {"", "FP8", "Fp8", " fp8", "fp8 ", "fp8\n", "fp8k", "fp8k_fp8v", "turbo3k_turbo4v",
        "bf16k_turbo8v", "turbo", "int8", "fp8k_turbo4", "fp8k4"}) {
    CAPTURE(name);
    const auto pair = ParseDtype(name);
    REQUIRE(absl::IsInvalidArgument(pair.status()));
    const std::string message(pair.status().message());
    for (const char* listed :
         {"fp32", "fp16", "bf16", "fp8,", "nvfp4", "turbo8,", "turbo2,", "raw", "turbo4k_turbo3v",
          "turbo4k3v", "fp8k_turbo2v", "fp8k2v", "bf16k_turbo4v", "bf16k4v", "turbo3k8v"}) {
      CAPTURE(listed);
      CHECK(message.find(listed) != std::string::npos);
    }
  }
}

TEST_CASE("ParseDtype shows a wrong name with control characters escaped, and cut") {
  const auto pair = ParseDtype("\x1b[31m" + std::string(5000, 'x'));
  const std::string message(pair.status().message());
  CHECK(message.find('\x1b') == std::string::npos);
  CHECK(message.find("\\x1b[31m") != std::string::npos);
  CHECK(message.size() < 1000);
}

}  // namespace
}  // namespace kvpool
