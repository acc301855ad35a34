#include "core/ledger/keyed_calls.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "core/error.h"

namespace kvpool {
namespace {

enum class Method : uint8_t { kAlloc, kIncRef, kDecRef, kPublish, kLookup };

// Blocks that a session's remembered answers may name beside twice what it holds: 256 KiB, and all
// of 64 answers with prefixes of 256 blocks, whoever holds them in common.
constexpr uint64_t kSlack = 16'384;

absl::Span<const BlockRef> Hashable(std::span<const BlockRef> blocks) {
  return {blocks.data(), blocks.size()};
}

// Of no prefix: 0.
uint64_t HashPrefix(const PrefixKeys* prefix) {
  if (prefix == nullptr) return 0;
  const absl::string_view parent =
      prefix->parent.has_value() ? prefix->parent->view() : absl::string_view();
  const absl::Span<const PrefixKey> blocks(prefix->blocks);
  return absl::HashOf(prefix->root, parent, blocks);
}

absl::Status OtherRequestError(uint64_t key) {
  return MakeError(absl::StatusCode::kInvalidArgument, {},
                   absl::StrCat("idempotency key ", key, " is another request's"));
}

}  // namespace

uint64_t KeyedCalls::Hash(const AllocCall& call) {
  const Duration wait = call.may_wait() ? *call.wait : Duration::zero();
  return absl::HashOf(Method::kAlloc, call.count, call.allow_partial, wait.count(), call.fill,
                      Hashable(call.release), call.queue, HashPrefix(call.prefix),
                      call.max_new_blocks);
}

uint64_t KeyedCalls::Hash(const IncRefCall& call) {
  return absl::HashOf(Method::kIncRef, Hashable(call.blocks));
}

uint64_t KeyedCalls::Hash(const DecRefCall& call) {
  return absl::HashOf(Method::kDecRef, Hashable(call.blocks), call.done);
}

uint64_t KeyedCalls::Hash(const PublishCall& call) {
  return absl::HashOf(Method::kPublish, HashPrefix(call.prefix), call.adapter, call.skip,
                      Hashable(call.blocks));
}

uint64_t KeyedCalls::Hash(const LookupCall& call) {
  return absl::HashOf(Method::kLookup, HashPrefix(call.prefix), call.acquire);
}

absl::StatusOr<const KeyedAnswer*> KeyedCalls::Find(const Session& session, uint64_t key,
                                                    uint64_t request) const {
  if (key == 0) return nullptr;
  const RetryTable::Entry* entry = session.retries.Find(key);
  if (entry == nullptr) {
    const auto pending = session.pending_keys.find(key);
    if (pending == session.pending_keys.end()) return nullptr;
    if (PendingRequest(pending->second) != request) return OtherRequestError(key);
    return nullptr;
  }
  if (entry->request != request) return OtherRequestError(key);
  if (entry->is_spent) {
    return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kKeySpent},
                     absl::StrCat("the answer under idempotency key ", key,
                                  " made room for later ones, which name many blocks"));
  }
  const auto is_held = [&](const BlockRef& ref) { return IsHeld(session, ref); };
  if (!std::ranges::all_of(HeldBy(entry->answer), is_held)) {
    return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kKeySpent},
                     absl::StrCat("the answer under idempotency key ", key,
                                  " names a block that the session does not hold any more"));
  }
  return &entry->answer;
}

void KeyedCalls::Remember(Session& session, uint64_t key, uint64_t request, KeyedAnswer answer) {
  session.retries.Remember(key, request, std::move(answer),
                           state_.options.limits.max_idempotency_keys);
  session.retries.SpendOldest(2 * uint64_t{session.held_blocks} + kSlack);
}

uint64_t KeyedCalls::PendingRequest(PendingId id) const {
  const WaitingCall* waiting = state_.waits.Find(id);
  return waiting != nullptr ? waiting->request : state_.fills.at(id).request;
}

bool KeyedCalls::IsHeld(const Session& session, const BlockRef& ref) const {
  return state_.references.CheckHeld(session, ref, 0).ok();
}

}  // namespace kvpool
