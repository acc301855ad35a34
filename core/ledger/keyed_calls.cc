#include "core/ledger/keyed_calls.h"

#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "core/error.h"
#include "core/ledger/sweep_due.h"

namespace kvpool {
namespace {

enum class Method : uint8_t { kAlloc, kIncRef, kDecRef, kPublish, kLookup };

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
  const auto is_held = [&](const BlockRef& ref) { return IsHeld(session, ref); };
  if (entry->is_spent || IsSpent(entry->answer, is_held)) {
    return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kKeySpent},
                     absl::StrCat("the answer under idempotency key ", key,
                                  " names a block that the session does not hold any more"));
  }
  return &entry->answer;
}

void KeyedCalls::Remember(Session& session, uint64_t key, uint64_t request, KeyedAnswer answer) {
  const uint64_t before = session.retries.block_count();
  session.retries.Remember(key, request, std::move(answer),
                           state_.options.limits.max_idempotency_keys);
  if (!IsSweepDue(before, session.retries.block_count(), session.held_blocks)) return;
  session.retries.Sweep([&](const BlockRef& ref) { return IsHeld(session, ref); });
}

uint64_t KeyedCalls::PendingRequest(PendingId id) const {
  const WaitingCall* waiting = state_.waits.Find(id);
  return waiting != nullptr ? waiting->request : state_.fills.at(id).request;
}

bool KeyedCalls::IsHeld(const Session& session, const BlockRef& ref) const {
  return state_.references.CheckHeld(session, ref, 0).ok();
}

}  // namespace kvpool
