#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/strings/string_view.h"
#include <openssl/evp.h>

#include "core/ledger/prefix/prefix_key.h"

namespace kvpool {

// Sha256Stream hashes one message after another with one context of libcrypto's. What is short is
// gathered first: each call of libcrypto's costs as much as half a block of SHA-256.
//
// One thread at a time.
class Sha256Stream {
 public:
  // `sha256` is the algorithm, fetched; it must outlive this.
  explicit Sha256Stream(const EVP_MD* sha256);

  Sha256Stream(const Sha256Stream&) = delete;
  Sha256Stream& operator=(const Sha256Stream&) = delete;

  void Append(const void* bytes, size_t size) {
    if (size > gathered_.size() - gathered_size_) {
      AppendLong(bytes, size);
    } else if (size > 0) {
      std::memcpy(gathered_.data() + gathered_size_, bytes, size);
      gathered_size_ += size;
    }
  }
  void Append(absl::string_view bytes) { Append(bytes.data(), bytes.size()); }
  // Little-endian.
  void AppendNumber(uint32_t value) { Append(&value, sizeof(value)); }
  void AppendNumber(uint64_t value) { Append(&value, sizeof(value)); }

  // The hash of what was appended since the last Finish. The next message begins.
  PrefixKey Finish();

 private:
  struct FreeContext {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };

  void Begin();
  void Flush();
  void AppendLong(const void* bytes, size_t size);

  const EVP_MD* const sha256_;
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context_;
  std::array<uint8_t, 256> gathered_;
  size_t gathered_size_ = 0;
};

}  // namespace kvpool
