#include "tests/model/ledger/call_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "tests/model/ledger/model_keys.h"
#include "tests/model/ledger/verdict.h"

namespace kvpool::test {
namespace {

std::string KeyText(uint64_t key) { return key == 0 ? "" : absl::StrCat(" key=", key); }

struct EventText {
  std::string operator()(const AllocDone& event) const {
    return absl::StrCat("AllocDone{", ToText(event.id), " ",
                        event.result.ok() ? ToText(*event.result) : ToText(event.result.status()),
                        "}");
  }
  std::string operator()(const FillNeeded& event) const {
    return absl::StrCat("FillNeeded{", ToText(event.id), " zero=", ToText(event.zero),
                        " poison=", ToText(event.poison), "}");
  }
  std::string operator()(const PinDone& event) const {
    return absl::StrCat("PinDone{", ToText(event.id), " ", ToText(event.status), "}");
  }
  std::string operator()(const SessionEnded& event) const {
    return absl::StrCat("SessionEnded{", ToText(event.id), " ", static_cast<int>(event.reason),
                        "}");
  }
  std::string operator()(const SessionForgotten& event) const {
    return absl::StrCat("SessionForgotten{", ToText(event.id), "}");
  }
  std::string operator()(const MemberGone& event) const {
    return absl::StrCat("MemberGone{", ToText(event.id), "}");
  }
  std::string operator()(const WatchReady& event) const {
    return absl::StrCat("WatchReady{#", static_cast<uint64_t>(event.id), "}");
  }
};

}  // namespace

std::string ToText(PendingId id) { return absl::StrCat("#", static_cast<uint64_t>(id)); }

std::string ToText(const std::vector<BlockId>& blocks) {
  std::vector<uint32_t> ids;
  ids.reserve(blocks.size());
  for (const BlockId block : blocks) ids.push_back(ToIndex(block));
  return absl::StrCat("[", absl::StrJoin(ids, " "), "]");
}

std::string ToText(ProcessId process) { return absl::StrCat("p", static_cast<uint64_t>(process)); }

SessionId MakeSessionId(uint32_t number) {
  SessionId id;
  for (size_t i = 0; i < 4; ++i) id.bytes[i] = static_cast<uint8_t>(number >> (24 - 8 * i));
  return id;
}

std::string ToText(const SessionId& session) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number = number << 8 | session.bytes[i];
  return absl::StrCat("s", number);
}

std::string ToText(std::span<const BlockRef> blocks) {
  std::vector<std::string> texts;
  for (const BlockRef& ref : blocks) {
    const auto generation = static_cast<uint64_t>(ref.generation);
    texts.push_back(generation == 0 ? absl::StrCat(ToIndex(ref.block))
                                    : absl::StrCat(ToIndex(ref.block), "@", generation));
  }
  return absl::StrCat("[", absl::StrJoin(texts, " "), "]");
}

std::string ToText(const AllocAnswer& answer) {
  return absl::StrCat(ToText(answer.blocks), " matched=", answer.matched_blocks,
                      answer.last_key.has_value() ? " last=" + ToText(*answer.last_key) : "",
                      " available=", answer.available);
}

std::string ToText(const PublishAnswer& answer) {
  std::string text = absl::StrCat("published=", answer.published);
  for (const Duplicate& each : answer.duplicates) {
    absl::StrAppend(&text, " duplicate#", each.index, "=", ToText({&each.known, 1}));
  }
  return text + (answer.last_key.has_value() ? " last=" + ToText(*answer.last_key) : "");
}

std::string ToText(const BlockInfo& info) {
  constexpr const char* kStates[] = {"free", "held", "cached", "quarantined"};
  std::string text =
      absl::StrCat(ToIndex(info.block), "@", static_cast<uint64_t>(info.generation), " ",
                   kStates[static_cast<size_t>(info.state)], " x", info.ref_count,
                   info.claimed ? " claimed" : "", info.sealed ? " sealed" : "",
                   info.published ? " published" : "", " ", info.tenant);
  for (const BlockHolder& holder : info.holders) {
    absl::StrAppend(&text, " ", ToText(holder.session), "x", holder.references);
  }
  return text;
}

std::string ToText(const LedgerEvent& event) { return std::visit(EventText{}, event); }

std::string ToText(const Caller& caller) {
  return absl::StrCat(ToText(caller.session), "/", std::string(caller.tenant));
}

std::string ToText(const OpenSessionCall& call) {
  return absl::StrCat("OpenSession{", ToText(call.id), "/", std::string(call.tenant),
                      " model=", std::string(call.model_id),
                      " process=", static_cast<uint64_t>(call.process), " ttl=", call.ttl.count(),
                      " guaranteed=", call.guaranteed_blocks,
                      call.join.has_value() ? " join=" + ToText(*call.join) : "", "}");
}

std::string ToText(const AllocCall& call) {
  return absl::StrCat(
      "Alloc{", ToText(call.caller), " count=", call.count, call.allow_partial ? " partial" : "",
      call.may_wait() ? absl::StrCat(" wait=", call.wait->count()) : "",
      " fill=", static_cast<int>(call.fill), " release=", ToText(call.release),
      call.prefix != nullptr ? " prefix=" + ToText(*call.prefix) : "",
      call.max_new_blocks > 0 ? absl::StrCat(" max_new=", call.max_new_blocks) : "",
      KeyText(call.idempotency_key), call.queue == WaitQueue::kAdmit ? " admit" : "", "}");
}

std::string ToText(const IncRefCall& call) {
  return absl::StrCat("IncRef{", ToText(call.caller), " ", ToText(call.blocks),
                      KeyText(call.idempotency_key), "}");
}

std::string ToText(const DecRefCall& call) {
  return absl::StrCat("DecRef{", ToText(call.caller), " ", ToText(call.blocks),
                      call.done ? " done" : "", KeyText(call.idempotency_key), "}");
}

std::string ToText(const PublishCall& call) {
  return absl::StrCat("Publish{", ToText(call.caller), " prefix=", ToText(*call.prefix),
                      " adapter=", std::string(call.adapter), " skip=", call.skip, " ",
                      ToText(call.blocks), KeyText(call.idempotency_key), "}");
}

std::string ToText(const LookupCall& call) {
  return absl::StrCat("Lookup{", ToText(call.caller), " prefix=", ToText(*call.prefix),
                      call.acquire ? " acquire" : "", KeyText(call.idempotency_key), "}");
}

std::string ToText(const EvictCall& call) {
  return absl::StrCat("Evict{", ToText(call.caller), " count=", call.count, " ",
                      ToText(call.blocks), "}");
}

std::string ToText(const PinCall& call) {
  return absl::StrCat(
      "Pin{", ToText(call.caller), " reads=", ToText(call.reads), " writes=", ToText(call.writes),
      call.write_session.has_value() ? " write_session=" + ToText(*call.write_session) : "", "}");
}

}  // namespace kvpool::test
