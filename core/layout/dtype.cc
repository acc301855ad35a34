#include "core/layout/dtype.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "core/check.h"
#include "core/layout/overflow.h"

namespace kvpool {
namespace {

// Elements that share a scale.
constexpr uint64_t kScaleGroup = 16;

// Sizes are whole numbers of bits an element and bytes a scale, so nothing is ever rounded.
struct DtypeInfo {
  Dtype dtype{};
  absl::string_view name;
  uint64_t element_bits = 0;  // 0 with kRaw, whose elements are unknown.
  uint64_t scale_bytes = 0;   // A group of 16 elements.
};

constexpr std::array<DtypeInfo, 10> kDtypes = {{
    {Dtype::kFp32, "fp32", 32, 0},
    {Dtype::kFp16, "fp16", 16, 0},
    {Dtype::kBf16, "bf16", 16, 0},
    {Dtype::kFp8, "fp8", 8, 0},
    {Dtype::kNvfp4, "nvfp4", 4, 1},
    {Dtype::kTurbo8, "turbo8", 8, 2},
    {Dtype::kTurbo4, "turbo4", 4, 1},
    {Dtype::kTurbo3, "turbo3", 3, 1},
    {Dtype::kTurbo2, "turbo2", 2, 1},
    {Dtype::kRaw, "raw", 0, 0},
}};

struct PairInfo {
  absl::string_view name;
  absl::string_view alias;
  DtypePair pair;
};

constexpr std::array<PairInfo, 9> kPairs = {{
    {"turbo4k_turbo3v", "turbo4k3v", {Dtype::kTurbo4, Dtype::kTurbo3}},
    {"turbo4k_turbo8v", "turbo4k8v", {Dtype::kTurbo4, Dtype::kTurbo8}},
    {"turbo3k_turbo8v", "turbo3k8v", {Dtype::kTurbo3, Dtype::kTurbo8}},
    {"bf16k_turbo4v", "bf16k4v", {Dtype::kBf16, Dtype::kTurbo4}},
    {"bf16k_turbo3v", "bf16k3v", {Dtype::kBf16, Dtype::kTurbo3}},
    {"bf16k_turbo2v", "bf16k2v", {Dtype::kBf16, Dtype::kTurbo2}},
    {"fp8k_turbo4v", "fp8k4v", {Dtype::kFp8, Dtype::kTurbo4}},
    {"fp8k_turbo3v", "fp8k3v", {Dtype::kFp8, Dtype::kTurbo3}},
    {"fp8k_turbo2v", "fp8k2v", {Dtype::kFp8, Dtype::kTurbo2}},
}};

const DtypeInfo& InfoOf(Dtype dtype) {
  const auto* info = std::ranges::find(kDtypes, dtype, &DtypeInfo::dtype);
  KVPOOL_CHECK(info != kDtypes.end());
  return *info;
}

std::string AllNames() {
  const auto dtype_name = [](std::string* out, const DtypeInfo& info) {
    absl::StrAppend(out, info.name);
  };
  const auto pair_names = [](std::string* out, const PairInfo& info) {
    absl::StrAppend(out, info.name, ", ", info.alias);
  };
  return absl::StrCat(absl::StrJoin(kDtypes, ", ", dtype_name), ", ",
                      absl::StrJoin(kPairs, ", ", pair_names));
}

}  // namespace

absl::string_view DtypeName(Dtype dtype) { return InfoOf(dtype).name; }

bool HasScales(Dtype dtype) { return InfoOf(dtype).scale_bytes != 0; }

absl::StatusOr<DtypePair> ParseDtype(absl::string_view name) {
  const auto* single = std::ranges::find(kDtypes, name, &DtypeInfo::name);
  if (single != kDtypes.end()) return DtypePair{.k = single->dtype, .v = single->dtype};
  const auto* pair = std::ranges::find_if(
      kPairs, [name](const PairInfo& info) { return info.name == name || info.alias == name; });
  if (pair != kPairs.end()) return pair->pair;
  constexpr size_t kMaxShown = 100;  // Of a name that may be anything.
  return absl::InvalidArgumentError(absl::StrCat("\"", absl::CHexEscape(name.substr(0, kMaxShown)),
                                                 "\" is no dtype; the dtypes are ", AllNames()));
}

absl::string_view DtypePairName(DtypePair pair) {
  if (pair.k == pair.v) return DtypeName(pair.k);
  const auto* info = std::ranges::find(kPairs, pair, &PairInfo::pair);
  KVPOOL_CHECK(info != kPairs.end());
  return info->name;
}

absl::StatusOr<SideBytes> BytesFor(Dtype dtype, uint64_t elements) {
  const DtypeInfo& info = InfoOf(dtype);
  KVPOOL_CHECK(dtype != Dtype::kRaw);
  if (elements == 0) return absl::InvalidArgumentError("a block has 0 elements a side");
  if (HasScales(dtype) && elements % kScaleGroup != 0) {
    return absl::InvalidArgumentError(absl::StrCat("a block has ", elements,
                                                   " elements a side, which is no multiple of ",
                                                   kScaleGroup, " as ", info.name, " needs"));
  }
  // Formats below 8 bits have scales, so 16 elements are 2 * element_bits whole bytes and
  // dividing first loses nothing; the others are whole bytes an element.
  const std::optional<uint64_t> data =
      HasScales(dtype) ? CheckedProduct({elements / kScaleGroup, 2 * info.element_bits})
                       : CheckedProduct({elements, info.element_bits / 8});
  const uint64_t scales = elements / kScaleGroup * info.scale_bytes;
  if (!data.has_value() || !CheckedSum(*data, scales).has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("the bytes of a side of ", elements, " ",
                                                   info.name, " elements overflow 64 bits"));
  }
  return SideBytes{.data_bytes = *data, .scale_bytes = scales};
}

}  // namespace kvpool
