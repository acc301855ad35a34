#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/raw_session.h"

namespace kvpool::test {

inline constexpr uint32_t kBlockTokens = 16;

// A prefix of whole blocks, a number each: block i's tokens are all made from numbers[i].
inline v1::Prefix BlocksOf(const std::vector<uint32_t>& numbers) {
  v1::Prefix prefix;
  for (const uint32_t number : numbers) {
    for (uint32_t i = 0; i < kBlockTokens; ++i) prefix.add_tokens(number * kBlockTokens + i);
  }
  return prefix;
}

inline std::vector<uint32_t> IdsOf(const v1::Blocks& blocks) {
  return {blocks.block_ids().begin(), blocks.block_ids().end()};
}

// A session with a model that publishes and finds. What is asked for must succeed, unless the
// call is one of the Try ones.
class PrefixUser {
 public:
  explicit PrefixUser(RawClient& client, const std::string& model_id = "llama") : client_(client) {
    v1::OpenSessionRequest request;
    request.set_model_id(model_id);
    auto session = RawSession::Open(client, request);
    REQUIRE(Said(session) == "OK");
    session_ = *std::move(session);
  }

  RawSession& session() { return *session_; }

  absl::StatusOr<v1::PublishResponse> TryPublish(const v1::Prefix& prefix, const v1::Blocks& blocks,
                                                 uint32_t skip = 0) {
    v1::PublishRequest request;
    request.set_session_id(session_->id());
    *request.mutable_prefix() = prefix;
    request.set_skip(skip);
    *request.mutable_blocks() = blocks;
    return client_.Publish(request);
  }
  // Blocks with that prefix, held still.
  v1::Blocks PublishNew(const v1::Prefix& prefix) {
    const int tokens = prefix.tokens_size() + prefix.block_hashes_size() * int{kBlockTokens};
    auto blocks = session_->Alloc(static_cast<uint32_t>(tokens) / kBlockTokens);
    REQUIRE(Said(blocks) == "OK");
    REQUIRE(Said(TryPublish(prefix, *blocks)) == "OK");
    return *std::move(blocks);
  }
  // The same, held by nobody.
  v1::Blocks Cache(const v1::Prefix& prefix) {
    v1::Blocks blocks = PublishNew(prefix);
    REQUIRE(Said(session_->DecRef(blocks)) == "OK");
    return blocks;
  }

  absl::StatusOr<v1::LookupResponse> TryLookup(
      const v1::Prefix& prefix, bool acquire,
      std::chrono::microseconds deadline = RawClient::kPatience) {
    v1::LookupRequest request;
    request.set_session_id(session_->id());
    *request.mutable_prefix() = prefix;
    request.set_acquire(acquire);
    return client_.Lookup(request, deadline);
  }
  // The blocks found, as a hint.
  std::vector<uint32_t> Find(const v1::Prefix& prefix) {
    const auto found = TryLookup(prefix, /*acquire=*/false);
    REQUIRE(Said(found) == "OK");
    return IdsOf(found->blocks());
  }
  v1::Blocks Hold(const v1::Prefix& prefix) {
    auto found = TryLookup(prefix, /*acquire=*/true);
    REQUIRE(Said(found) == "OK");
    return *std::move(found->mutable_blocks());
  }

  absl::StatusOr<v1::AcquireResponse> TryAcquire(const v1::Prefix& prefix, uint32_t total_blocks) {
    v1::AcquireRequest request;
    request.set_session_id(session_->id());
    *request.mutable_prefix() = prefix;
    request.set_total_blocks(total_blocks);
    return client_.Acquire(request);
  }
  absl::StatusOr<v1::EvictResponse> TryEvict(uint32_t count, const v1::Blocks& blocks = {}) {
    v1::EvictRequest request;
    request.set_session_id(session_->id());
    request.set_count(count);
    *request.mutable_blocks() = blocks;
    return client_.Evict(request);
  }

 private:
  RawClient& client_;
  std::unique_ptr<RawSession> session_;
};

}  // namespace kvpool::test
