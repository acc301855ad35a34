#include "core/ledger/prefix/sha256_stream.h"

#include <bit>
#include <cstring>

#include "core/check.h"

namespace kvpool {

// Numbers and tokens are hashed as they lie in memory.
static_assert(std::endian::native == std::endian::little);

// The array is written before it is read.
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init)
Sha256Stream::Sha256Stream(const EVP_MD* sha256) : sha256_(sha256), context_(EVP_MD_CTX_new()) {
  KVPOOL_CHECK(context_ != nullptr);
  Begin();
}

void Sha256Stream::Append(const void* bytes, size_t size) {
  if (size > gathered_.size() - gathered_size_) {
    Flush();
    if (size > gathered_.size()) {
      KVPOOL_CHECK(EVP_DigestUpdate(context_.get(), bytes, size) == 1);
      return;
    }
  }
  if (size > 0) std::memcpy(gathered_.data() + gathered_size_, bytes, size);
  gathered_size_ += size;
}

void Sha256Stream::AppendNumber(uint32_t value) { Append(&value, sizeof(value)); }

void Sha256Stream::AppendNumber(uint64_t value) { Append(&value, sizeof(value)); }

PrefixKey Sha256Stream::Finish() {
  Flush();
  PrefixKey key;
  KVPOOL_CHECK(EVP_DigestFinal_ex(context_.get(), key.bytes.data(), /*s=*/nullptr) == 1);
  Begin();
  return key;
}

void Sha256Stream::Begin() {
  KVPOOL_CHECK(EVP_DigestInit_ex2(context_.get(), sha256_, /*params=*/nullptr) == 1);
}

void Sha256Stream::Flush() {
  KVPOOL_CHECK(EVP_DigestUpdate(context_.get(), gathered_.data(), gathered_size_) == 1);
  gathered_size_ = 0;
}

}  // namespace kvpool
