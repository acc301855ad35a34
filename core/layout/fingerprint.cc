#include "core/layout/fingerprint.h"

#include <array>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include <openssl/evp.h>

#include "core/check.h"

namespace kvpool {
namespace {

// Writes fields one after the other: the length of the name (8 bytes, little-endian), the name, a
// byte for the type ('u' or 's'), and the number (8 bytes, little-endian) or the text after its
// length.
class Encoder {
 public:
  void Number(absl::string_view name, uint64_t value) {
    Name(name, 'u');
    Append(value);
  }
  void Text(absl::string_view name, absl::string_view value) {
    Name(name, 's');
    Append(value.size());
    absl::StrAppend(&bytes_, value);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void Name(absl::string_view name, char type) {
    Append(name.size());
    absl::StrAppend(&bytes_, name);
    bytes_.push_back(type);
  }
  void Append(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes_.push_back(static_cast<char>((value >> shift) & 0xFF));
    }
  }

  std::string bytes_;
};

void EncodeSide(const SideLayout& side, Encoder& encoder) {
  encoder.Text("dtype", DtypeName(side.dtype));
  encoder.Number("num_heads", side.num_heads);
  encoder.Number("head_dim", side.head_dim);
}

// The words are part of what is hashed, so they are written out here and change with nothing else.
absl::string_view VModeWord(VMode mode) {
  switch (mode) {
    case VMode::kSeparate:
      return "separate";
    case VMode::kAliasesK:
      return "aliases_k";
    case VMode::kNone:
      return "none";
  }
  KVPOOL_CHECK(false);
}

absl::string_view OrderWord(MemoryOrder order) {
  switch (order) {
    case MemoryOrder::kLayerMajor:
      return "layer_major";
    case MemoryOrder::kBlockMajor:
      return "block_major";
  }
  KVPOOL_CHECK(false);
}

std::string Sha256Hex(absl::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  KVPOOL_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(),
                          /*impl=*/nullptr) == 1);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

}  // namespace

std::string Fingerprint(const PoolSpec& spec, std::span<const LayerLayout> layers) {
  Encoder encoder;
  encoder.Text("format", "kvpool.layout.v1");
  encoder.Number("block_size", *spec.block_size);
  encoder.Number("raw_token_bytes", spec.raw_token_bytes);
  encoder.Text("v_mode", VModeWord(spec.v_mode));
  encoder.Text("memory_order", OrderWord(spec.memory_order));
  encoder.Number("num_layers", layers.size());
  for (const LayerLayout& layer : layers) {
    EncodeSide(layer.k, encoder);
    if (spec.v_mode == VMode::kSeparate) EncodeSide(*layer.v, encoder);
  }
  return Sha256Hex(encoder.bytes());
}

}  // namespace kvpool
