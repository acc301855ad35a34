#pragma once

#include <cstdint>

#include <openssl/evp.h>

#include "core/ledger/prefix/prefix_key.h"

namespace kvpool::test {

// A key like any: the hash of a number.
inline PrefixKey KeyOf(uint64_t number) {
  PrefixKey key;
  EVP_Digest(&number, sizeof(number), key.bytes.data(), nullptr, EVP_sha256(), nullptr);
  return key;
}

}  // namespace kvpool::test
