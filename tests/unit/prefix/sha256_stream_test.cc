#include "core/ledger/prefix/sha256_stream.h"

#include <string>

#include "absl/strings/escaping.h"
#include <openssl/evp.h>

#include "tests/support/catch.h"

namespace kvpool {
namespace {

std::string Hex(const PrefixKey& key) { return absl::BytesToHexString(key.view()); }

TEST_CASE("Sha256Stream makes the hashes of FIPS 180-4's examples, one after the other") {
  Sha256Stream stream(EVP_sha256());
  stream.Append("abc");
  CHECK(Hex(stream.Finish()) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(Hex(stream.Finish()) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  stream.Append("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnop");
  stream.Append("nopq");
  CHECK(Hex(stream.Finish()) == "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("Sha256Stream hashes the same bytes alike, however they are cut") {
  std::string bytes;
  for (int i = 0; i < 1'000; ++i) bytes.push_back(static_cast<char>(i * 7));
  Sha256Stream stream(EVP_sha256());
  stream.Append(bytes);
  const PrefixKey whole = stream.Finish();
  for (const size_t piece : {1U, 3U, 100U, 255U, 256U, 257U, 300U, 999U}) {
    CAPTURE(piece);
    for (size_t at = 0; at < bytes.size(); at += piece) {
      stream.Append(absl::string_view(bytes).substr(at, piece));
    }
    CHECK(stream.Finish() == whole);
  }
}

TEST_CASE("Sha256Stream appends numbers with the least byte first") {
  Sha256Stream stream(EVP_sha256());
  stream.AppendNumber(uint32_t{0x04030201});
  stream.AppendNumber(uint64_t{0x0C0B0A0908070605});
  const PrefixKey numbers = stream.Finish();
  stream.Append("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0A\x0B\x0C");
  CHECK(stream.Finish() == numbers);
}

}  // namespace
}  // namespace kvpool
