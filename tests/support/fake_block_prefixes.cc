// FakeBlockService's prefix cache.
#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/error.h"
#include "tests/support/fake_block_service.h"

namespace kvpool::test {
namespace {

grpc::Status PreconditionFailed(Reason reason, absl::string_view message) {
  return FakeStatusToGrpc(
      MakeError(absl::StatusCode::kFailedPrecondition, {.reason = reason}, message));
}

}  // namespace

bool FakeBlockService::IsFindable(uint32_t block) const {
  return std::ranges::any_of(findable_,
                             [block](const auto& entry) { return entry.second == block; });
}

// A key is all that is before its block's end, written out.
std::optional<std::vector<std::string>> FakeBlockService::KeysOf(const v1::Prefix& prefix) const {
  std::string key = prefix.parent_key();
  if (key.empty()) {
    key = absl::StrCat("adapter ", prefix.space().adapter(), " salt ", prefix.space().salt());
  } else if (!findable_.contains(key)) {
    return std::nullopt;
  }
  std::vector<std::string> keys;
  for (const std::string& hash : prefix.block_hashes()) {
    absl::StrAppend(&key, " hash ", hash);
    keys.push_back(key);
  }
  const auto block_size = static_cast<int>(*layout_.spec.block_size);
  for (int i = 0; i < prefix.tokens_size() / block_size * block_size; ++i) {
    absl::StrAppend(&key, " ", prefix.tokens(i));
    if ((i + 1) % block_size == 0) keys.push_back(key);
  }
  return keys;
}

v1::Blocks FakeBlockService::Match(const v1::Prefix& prefix, size_t max_blocks,
                                   std::string& last_key) const {
  v1::Blocks blocks;
  last_key = prefix.parent_key();
  for (const std::string& key : KeysOf(prefix).value_or(std::vector<std::string>{})) {
    const auto found = findable_.find(key);
    if (found == findable_.end() || static_cast<size_t>(blocks.block_ids_size()) == max_blocks) {
      break;
    }
    blocks.add_block_ids(found->second);
    blocks.add_generations(generations_[found->second]);
    last_key = key;
  }
  return blocks;
}

void FakeBlockService::Hold(Session& session, const v1::Blocks& blocks) {
  for (const uint32_t block : blocks.block_ids()) {
    ++counts_[block];
    ++session.references[block];
  }
}

grpc::Status FakeBlockService::Publish(grpc::ServerContext* /*context*/,
                                       const v1::PublishRequest* request,
                                       v1::PublishResponse* response) {
  const MutexLock lock(mutex_);
  last_prefix_ = request->prefix();
  if (const grpc::Status status = Begin("Publish", request->idempotency_key()); !status.ok()) {
    return status;
  }
  Session* const session = Find(request->session_id());
  if (session == nullptr) return FakeSessionUnknown();
  if (const auto answer = session->answers.find(request->idempotency_key());
      answer != session->answers.end()) {
    KVPOOL_CHECK(response->ParseFromString(answer->second));
    return grpc::Status::OK;
  }
  const v1::Blocks& blocks = request->blocks();
  if (const grpc::Status held = CheckHeld(*session, blocks, Reason::kNotHeld); !held.ok()) {
    return held;
  }
  const auto keys = KeysOf(request->prefix());
  if (!keys.has_value()) return PreconditionFailed(Reason::kParentUnknown, "no such parent");
  const auto count = static_cast<size_t>(blocks.block_ids_size());
  if (keys->size() != request->skip() + count) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "the prefix has another length"};
  }
  for (size_t i = 0; i < request->skip(); ++i) {
    if (findable_.contains((*keys)[i])) continue;
    return PreconditionFailed(Reason::kParentUnknown, "a skipped block is not findable");
  }
  for (size_t i = 0; i < count; ++i) {
    const uint32_t block = blocks.block_ids(static_cast<int>(i));
    const auto [entry, is_new] = findable_.emplace((*keys)[request->skip() + i], block);
    if (is_new) {
      response->set_published(response->published() + 1);
    } else if (entry->second != block) {
      v1::PublishResponse::Duplicate& duplicate = *response->add_duplicates();
      duplicate.set_index(static_cast<uint32_t>(i));
      duplicate.set_block_id(entry->second);
      duplicate.set_generation(generations_[entry->second]);
    }
  }
  response->set_last_key(keys->empty() ? request->prefix().parent_key() : keys->back());
  session->answers[request->idempotency_key()] = response->SerializeAsString();
  return End("Publish");
}

grpc::Status FakeBlockService::Lookup(grpc::ServerContext* /*context*/,
                                      const v1::LookupRequest* request,
                                      v1::LookupResponse* response) {
  const MutexLock lock(mutex_);
  last_prefix_ = request->prefix();
  const uint64_t key = request->idempotency_key();
  if (const grpc::Status status = Begin("Lookup", key); !status.ok()) return status;
  Session* const session = Find(request->session_id());
  if (session == nullptr) return FakeSessionUnknown();
  if (const auto answer = session->answers.find(key); answer != session->answers.end()) {
    KVPOOL_CHECK(response->ParseFromString(answer->second));
    return grpc::Status::OK;
  }
  *response->mutable_blocks() =
      Match(request->prefix(), layout_.num_blocks, *response->mutable_last_key());
  response->set_matched_tokens(static_cast<uint64_t>(response->blocks().block_ids_size()) *
                               *layout_.spec.block_size);
  if (request->acquire()) Hold(*session, response->blocks());
  if (key != 0) session->answers[key] = response->SerializeAsString();
  return End("Lookup");
}

grpc::Status FakeBlockService::Acquire(grpc::ServerContext* /*context*/,
                                       const v1::AcquireRequest* request,
                                       v1::AcquireResponse* response) {
  const MutexLock lock(mutex_);
  last_prefix_ = request->prefix();
  if (const grpc::Status status = Begin("Acquire", request->idempotency_key()); !status.ok()) {
    return status;
  }
  Session* const session = Find(request->session_id());
  if (session == nullptr) return FakeSessionUnknown();
  if (const auto answer = session->answers.find(request->idempotency_key());
      answer != session->answers.end()) {
    KVPOOL_CHECK(response->ParseFromString(answer->second));
    return grpc::Status::OK;
  }
  v1::Blocks matched =
      Match(request->prefix(), request->total_blocks(), *response->mutable_last_key());
  const auto matched_blocks = static_cast<uint32_t>(matched.block_ids_size());
  uint32_t fresh = request->total_blocks() - matched_blocks;
  if (request->max_new_blocks() > 0) fresh = std::min(fresh, request->max_new_blocks());
  if (fresh > free_.size()) {
    return FakeStatusToGrpc(
        MakeError(absl::StatusCode::kResourceExhausted,
                  {.reason = Reason::kPoolFull, .available = static_cast<uint32_t>(free_.size())},
                  "the pool is full"));
  }
  Hold(*session, matched);
  Take(*session, fresh, matched);
  *response->mutable_blocks() = std::move(matched);
  response->set_matched_blocks(matched_blocks);
  session->answers[request->idempotency_key()] = response->SerializeAsString();
  return End("Acquire");
}

grpc::Status FakeBlockService::Evict(grpc::ServerContext* /*context*/,
                                     const v1::EvictRequest* request, v1::EvictResponse* response) {
  const MutexLock lock(mutex_);
  if (const grpc::Status status = Begin("Evict", 0); !status.ok()) return status;
  if (Find(request->session_id()) == nullptr) return FakeSessionUnknown();
  const std::set<uint32_t> named(request->blocks().block_ids().begin(),
                                 request->blocks().block_ids().end());
  // A block's key begins with its parent's: from the back, children go first.
  std::vector<std::string> keys;
  for (auto entry = findable_.rbegin(); entry != findable_.rend(); ++entry) {
    const bool is_next = counts_[entry->second] == 0 && keys.size() < request->count();
    if (named.contains(entry->second) || is_next) keys.push_back(entry->first);
  }
  for (const std::string& key : keys) {
    const uint32_t block = findable_.extract(key).mapped();
    response->add_block_ids(block);
    if (counts_[block] > 0) continue;
    free_.push_back(block);
    response->set_freed(response->freed() + 1);
  }
  return End("Evict");
}

}  // namespace kvpool::test
