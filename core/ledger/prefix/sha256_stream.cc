#include "core/ledger/prefix/sha256_stream.h"

#include <bit>

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

void Sha256Stream::AppendLong(const void* bytes, size_t size) {
  Flush();
  if (size <= gathered_.size()) {
    Append(bytes, size);
  } else {
    KVPOOL_CHECK(EVP_DigestUpdate(context_.get(), bytes, size) == 1);
  }
}

}  // namespace kvpool
