#include "core/layout/spec_check.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "core/layout/dtype.h"
#include "core/layout/pool_layout.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

constexpr absl::string_view kCudaPrefix = "cuda:";
constexpr absl::string_view kDefaultDtype = "fp8";
constexpr size_t kMaxNameSize = 63;

// Values come from whoever wrote the spec: shown with control characters escaped, and cut.
std::string Quoted(absl::string_view text) {
  constexpr size_t kMaxShown = 100;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMaxShown)),
                      text.size() > kMaxShown ? "...\"" : "\"");
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsLowerHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f'); }

// An ASCII character that prints and is no space.
bool IsVisible(char c) { return c > ' ' && c <= '~'; }

// 8-4-4-4-12 hex digits, as the driver prints them.
bool IsUuid(absl::string_view text) {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (is_dash ? text[i] != '-' : !IsLowerHex(text[i])) return false;
  }
  return true;
}

// A decimal number of at most three digits without leading zeros.
bool IsOrdinal(absl::string_view text) {
  return !text.empty() && text.size() <= 3 && std::ranges::all_of(text, IsDigit) &&
         (text == "0" || text[0] != '0');
}

bool IsDevice(absl::string_view text) {
  if (text == kHostDevice) return true;
  if (!absl::ConsumePrefix(&text, kCudaPrefix)) return false;
  if (absl::ConsumePrefix(&text, "GPU-") || absl::ConsumePrefix(&text, "MIG-")) {
    return IsUuid(text);
  }
  return IsOrdinal(text);
}

absl::Status CheckDevices(const std::vector<std::string>& devices) {
  if (devices.size() > kMaxShards) {
    return WrongField("devices", absl::StrCat("a list of ", devices.size()),
                      absl::StrCat("a pool has at most ", kMaxShards, " shards"));
  }
  std::set<absl::string_view> seen;
  for (size_t i = 0; i < devices.size(); ++i) {
    const std::string field = absl::StrCat("devices[", i, "]");
    if (!IsDevice(devices[i])) {
      return WrongField(
          field, Quoted(devices[i]),
          "a device is \"host\", \"cuda:<number>\", \"cuda:GPU-<uuid>\" or \"cuda:MIG-<uuid>\"");
    }
    if (absl::StartsWith(devices[i], kCudaPrefix) != absl::StartsWith(devices[0], kCudaPrefix)) {
      return WrongField(
          field, Quoted(devices[i]),
          absl::StrCat("a pool is on one kind of device, and devices[0] is ", Quoted(devices[0])));
    }
    if (!seen.insert(devices[i]).second && devices[i] != kHostDevice) {
      return WrongField(field, Quoted(devices[i]), "only \"host\" may be listed twice");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTenants(const std::vector<std::string>& tenants) {
  if (tenants.size() > kMaxTenants) {
    return WrongField("tenants", absl::StrCat("a list of ", tenants.size()),
                      absl::StrCat("a pool has at most ", kMaxTenants, " tenants"));
  }
  std::set<absl::string_view> seen;
  for (size_t i = 0; i < tenants.size(); ++i) {
    const std::string field = absl::StrCat("tenants[", i, "]");
    const std::string& tenant = tenants[i];
    if (tenant.empty() || tenant.size() > kMaxTenantSize ||
        !std::ranges::all_of(tenant, IsVisible)) {
      return WrongField(field, Quoted(tenant),
                        absl::StrCat("a tenant is 1-", kMaxTenantSize,
                                     " printable ASCII characters without spaces"));
    }
    if (!seen.insert(tenant).second) {
      return WrongField(field, Quoted(tenant), "it is listed before");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSize(const PoolSpec& spec) {
  std::vector<absl::string_view> sizes;
  if (spec.num_blocks.has_value()) sizes.emplace_back("num_blocks");
  if (spec.memory_bytes.has_value()) sizes.emplace_back("memory_bytes");
  if (spec.memory_utilization.has_value()) sizes.emplace_back("memory_utilization");
  if (sizes.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(sizes.empty() ? "no size is given"
                                   : absl::StrCat(absl::StrJoin(sizes, " and "), " are given"),
                     ": give one of num_blocks, memory_bytes and memory_utilization"));
  }
  if (spec.num_blocks.has_value() && (*spec.num_blocks == 0 || *spec.num_blocks > kMaxBlocks)) {
    return WrongField("num_blocks", absl::StrCat(*spec.num_blocks),
                      absl::StrCat("a pool has 1 to ", kMaxBlocks, " blocks"));
  }
  if (spec.memory_bytes == 0U) {
    return WrongField("memory_bytes", "0", "no block fits in it");
  }
  if (spec.memory_utilization.has_value()) {
    const double utilization = *spec.memory_utilization;
    // Written so that a NaN is refused too.
    if (!(utilization > 0.0 && utilization <= 1.0)) {
      return WrongField("memory_utilization", absl::StrCat(utilization),
                        "it is above 0 and at most 1");
    }
    if (!IsCuda(spec)) {
      return WrongField("memory_utilization", absl::StrCat(utilization),
                        "it is for CUDA only, and the pool is on host memory");
    }
  } else if (spec.reserve_bytes != 0) {
    return WrongField("reserve_bytes", absl::StrCat(spec.reserve_bytes),
                      "it goes with memory_utilization only");
  }
  return absl::OkStatus();
}

absl::Status CheckRaw(const PoolSpec& spec) {
  if (spec.raw_token_bytes == 0) {
    return WrongField("raw_token_bytes", "0", "dtype raw needs the bytes of a token");
  }
  static constexpr absl::string_view kWhy = "dtype raw takes no heads, dims or overrides";
  const auto refuse_set = [](absl::string_view field, uint64_t value) {
    return value == 0 ? absl::OkStatus() : WrongField(field, absl::StrCat(value), kWhy);
  };
  KVPOOL_RETURN_IF_ERROR(refuse_set("num_kv_heads", spec.num_kv_heads));
  KVPOOL_RETURN_IF_ERROR(refuse_set("head_dim", spec.head_dim));
  KVPOOL_RETURN_IF_ERROR(refuse_set("v_head_dim", spec.v_head_dim));
  KVPOOL_RETURN_IF_ERROR(refuse_set("high_precision_layers", spec.high_precision_layers));
  if (!spec.layers.empty()) {
    return WrongField("layers", absl::StrCat("a list of ", spec.layers.size()), kWhy);
  }
  return absl::OkStatus();
}

// Checks a dtype and what it says of V, and makes its name canonical.
absl::Status CheckDtype(absl::string_view field, VMode v_mode, std::string& name) {
  const absl::StatusOr<DtypePair> pair = ParseDtype(name);
  if (!pair.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", pair.status().message()));
  }
  if (pair->k != pair->v && v_mode != VMode::kSeparate) {
    return WrongField(field, Quoted(name),
                      v_mode == VMode::kNone ? "it has a format for V, and v_mode is NONE"
                                             : "it has a format for V, and V aliases K");
  }
  name = std::string(DtypePairName(*pair));
  return absl::OkStatus();
}

// Checks one override against the pool; `owner` has, for each layer, the override that named it.
absl::Status CheckOverride(const PoolSpec& spec, size_t index, LayerOverride& layer,
                           std::vector<std::optional<size_t>>& owner) {
  const std::string prefix = absl::StrCat("layers[", index, "].");
  const std::string count = absl::StrCat("the pool has ", spec.num_layers, " layers");
  if (layer.first >= spec.num_layers) {
    return WrongField(absl::StrCat(prefix, "first"), absl::StrCat(layer.first), count);
  }
  if (layer.last >= spec.num_layers) {
    return WrongField(absl::StrCat(prefix, "last"), absl::StrCat(layer.last), count);
  }
  if (layer.last < layer.first) {
    return WrongField(absl::StrCat(prefix, "last"), absl::StrCat(layer.last),
                      absl::StrCat("it is before first, ", layer.first));
  }
  for (uint32_t i = layer.first; i <= layer.last; ++i) {
    if (owner[i].has_value()) {
      return WrongField(absl::StrCat(prefix, "first"), absl::StrCat(layer.first),
                        absl::StrCat("layer ", i, " is named by layers[", *owner[i], "] already"));
    }
    owner[i] = index;
  }
  if (layer.dtype.empty()) return absl::OkStatus();
  const std::string field = absl::StrCat(prefix, "dtype");
  KVPOOL_RETURN_IF_ERROR(CheckDtype(field, spec.v_mode, layer.dtype));
  if (layer.dtype == DtypeName(Dtype::kRaw)) {
    return WrongField(field, Quoted(layer.dtype), "raw is a dtype of whole pools only");
  }
  return absl::OkStatus();
}

absl::Status CheckFormats(PoolSpec& spec) {
  if (spec.num_layers == 0 || spec.num_layers > kMaxLayers) {
    return WrongField("num_layers", absl::StrCat(spec.num_layers),
                      absl::StrCat("a pool has 1 to ", kMaxLayers, " layers"));
  }
  KVPOOL_RETURN_IF_ERROR(CheckDtype("dtype", spec.v_mode, spec.dtype));
  if (spec.dtype == DtypeName(Dtype::kRaw)) return CheckRaw(spec);
  if (spec.raw_token_bytes != 0) {
    return WrongField("raw_token_bytes", absl::StrCat(spec.raw_token_bytes),
                      absl::StrCat("it goes with dtype raw only, and dtype is ", spec.dtype));
  }
  std::vector<std::optional<size_t>> owner(spec.num_layers);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    KVPOOL_RETURN_IF_ERROR(CheckOverride(spec, i, spec.layers[i], owner));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WrongField(absl::string_view field, absl::string_view value, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, ": ", why));
}

bool IsCuda(const PoolSpec& spec) {
  return !spec.devices.empty() && absl::StartsWith(spec.devices[0], kCudaPrefix);
}

absl::Status CheckPoolName(absl::string_view name) {
  const auto is_allowed = [](char c) { return IsDigit(c) || (c >= 'a' && c <= 'z') || c == '-'; };
  if (name.empty() || name.size() > kMaxNameSize || !std::ranges::all_of(name, is_allowed)) {
    return WrongField("name", Quoted(name), "a pool's name is 1-63 characters of a-z, 0-9 and '-'");
  }
  return absl::OkStatus();
}

absl::StatusOr<PoolSpec> CheckSpec(const PoolSpec& spec) {
  PoolSpec filled = spec;
  if (filled.devices.empty()) filled.devices.emplace_back(kHostDevice);
  if (filled.dtype.empty()) filled.dtype = std::string(kDefaultDtype);
  if (filled.fill_on_alloc == Fill::kUnspecified) filled.fill_on_alloc = Fill::kAcrossTenants;
  filled.block_size = filled.block_size.value_or(kDefaultBlockSize);

  KVPOOL_RETURN_IF_ERROR(CheckPoolName(filled.name));
  if (*filled.block_size == 0) return WrongField("block_size", "0", "a block holds tokens");
  KVPOOL_RETURN_IF_ERROR(CheckDevices(filled.devices));
  KVPOOL_RETURN_IF_ERROR(CheckFormats(filled));
  KVPOOL_RETURN_IF_ERROR(CheckSize(filled));
  KVPOOL_RETURN_IF_ERROR(CheckTenants(filled.tenants));
  if (filled.eviction_policy.empty()) filled.eviction_policy = std::string(kEvictionPolicies[0]);
  if (std::ranges::find(kEvictionPolicies, filled.eviction_policy) == kEvictionPolicies.end()) {
    return WrongField("eviction_policy", Quoted(filled.eviction_policy),
                      absl::StrCat("it is one of ", absl::StrJoin(kEvictionPolicies, ", ")));
  }
  return filled;
}

}  // namespace kvpool
