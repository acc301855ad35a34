#include <algorithm>

#include "absl/strings/str_cat.h"

#include "tests/model/ledger/call_text.h"
#include "tests/model/ledger/ledger_run.h"
#include "tests/model/ledger/model_keys.h"

namespace kvpool::test {

void LedgerRun::CacheStep() {
  const uint32_t choice = random_.Below(100);
  if (choice < 30) return Publish();
  if (choice < 36) return PublishAgain();
  if (choice < 56) return Lookup();
  if (choice < 78) return Acquire();
  if (choice < 86) return DecRef();
  if (choice < 90 || !random_.OneIn(10)) return Evict();
  ResetPrefixes();
}

// Of one of the tenant's two spaces, as hashing would have it; at times after a parent, and that
// at times of another space, be it another tenant's.
PrefixKeys LedgerRun::AnyPrefix(absl::string_view tenant) {
  const char own = tenant == "alpha" ? 'A' : 'C';
  const auto space = static_cast<char>(own + (random_.OneIn(5) ? 1 : 0));
  std::string text;
  // Mostly along what is known, and on.
  if (random_.OneIn(2)) {
    std::vector<PrefixKey> known;
    for (const auto& [key, entry] : model_.state().findable) {
      if (SpaceOf(key) == space) known.push_back(key);
    }
    if (!known.empty()) text = TextOf(OneOf(known));
    if (random_.OneIn(3)) text.resize(random_.Below(static_cast<uint32_t>(text.size()) + 1));
  }
  const auto known_length = static_cast<uint32_t>(text.size());
  const uint32_t longest = options_.max_text - std::min(options_.max_text, known_length);
  for (uint32_t left = random_.Below(longest + 1); left > 0; --left) {
    text += static_cast<char>('a' + random_.Below(options_.letters));
  }
  const auto length = static_cast<uint32_t>(text.size());
  const size_t split = random_.OneIn(3) ? random_.Below(length + 1) : 0;
  const bool is_foreign = split > 0 && random_.OneIn(12);
  const char parent_space = is_foreign ? OneOf<char>({'A', 'B', 'C', 'D'}) : space;
  PrefixKeys prefix = MakePrefix(parent_space, text.substr(0, split), text.substr(split));
  prefix.root = MakeKey(space, "");
  return prefix;
}

void LedgerRun::Acquire() {
  AllocCall call;
  call.caller = AnyCaller();
  const PrefixKeys prefix = AnyPrefix(call.caller.tenant);
  call.prefix = &prefix;
  // Mostly a little more than the prefix; at times less, or more than there is.
  call.count = static_cast<uint32_t>(prefix.blocks.size()) + random_.Below(3);
  if (random_.OneIn(8)) call.count = random_.Below(options_.ledger.num_blocks + 2);
  if (random_.OneIn(4)) call.max_new_blocks = 1 + random_.Below(2);
  if (random_.OneIn(2)) call.wait = Some(options_.max_wait_ticks);
  call.fill = AnyFill();
  call.idempotency_key = AnyKey();
  call.queue = WaitQueue::kAdmit;
  MakeAlloc(call);
}

// Blocks that the session holds, mostly such as are not sealed, and mostly each once.
std::vector<BlockRef> LedgerRun::SomeToPublish(const SessionId& session, size_t count) {
  std::vector<uint32_t> from, list;
  const bool is_any = random_.OneIn(8);
  for (uint32_t i = 0; i < options_.ledger.num_blocks; ++i) {
    const bool is_sealed = model_.state().blocks[i].sealed.has_value();
    if (model_.state().RefCount(i, session) > 0 && (is_any || !is_sealed)) from.push_back(i);
  }
  std::vector<BlockRef> refs;
  while (refs.size() < count && !from.empty()) {
    const uint32_t place = random_.Below(static_cast<uint32_t>(from.size()));
    refs.push_back({.block = BlockId{from[place]}, .generation = {}});
    if (random_.OneIn(2)) refs.back().generation = model_.state().blocks[from[place]].generation;
    if (random_.OneIn(60)) refs.back().generation = AnyGeneration(from[place]);
    if (!random_.OneIn(60)) from.erase(from.begin() + place);
  }
  if (random_.OneIn(50)) refs.push_back(AnyBlock());
  return refs;
}

void LedgerRun::Publish() {
  PublishCall call;
  call.caller = AnyCaller();
  PrefixKeys prefix = AnyPrefix(call.caller.tenant);
  // As an engine does: what is findable is skipped.
  if (random_.OneIn(2)) {
    call.skip = static_cast<uint32_t>(model_.state().Match(prefix, SIZE_MAX).size());
    if (random_.OneIn(8)) call.skip += random_.Below(2);
    if (random_.OneIn(4)) call.skip /= 2;
  }
  const size_t length = prefix.blocks.size();
  const std::vector<BlockRef> blocks =
      SomeToPublish(call.caller.session, length - std::min<size_t>(length, call.skip));
  if (!random_.OneIn(30)) prefix.blocks.resize(std::min(length, call.skip + blocks.size()));
  call.prefix = &prefix;
  call.blocks = blocks;
  if (random_.OneIn(10)) call.adapter = "lora";
  call.idempotency_key = AnyKey();
  MakePublish(call);
}

// A sealed block under its own prefix, or nearly.
void LedgerRun::PublishAgain() {
  PublishCall call;
  call.caller = AnyCaller();
  std::vector<uint32_t> sealed;
  for (uint32_t i = 0; i < options_.ledger.num_blocks; ++i) {
    const bool is_held = model_.state().RefCount(i, call.caller.session) > 0;
    if (is_held && model_.state().blocks[i].sealed.has_value()) sealed.push_back(i);
  }
  if (sealed.empty()) return Publish();
  const uint32_t block = OneOf(sealed);
  const PrefixKey key = *model_.state().blocks[block].sealed;
  std::string text = TextOf(key);
  if (random_.OneIn(10)) text.back() = text.back() == 'a' ? 'b' : 'a';
  const size_t skip = random_.OneIn(2) ? text.size() - 1 : 0;
  const std::string parent = skip > 0 ? "" : text.substr(0, text.size() - 1);
  const PrefixKeys prefix = MakePrefix(SpaceOf(key), parent, text.substr(parent.size()));
  const BlockRef ref{.block = BlockId{block}, .generation = AnyGeneration(block)};
  call.prefix = &prefix;
  call.skip = static_cast<uint32_t>(skip);
  call.blocks = {&ref, 1};
  MakePublish(call);
}

void LedgerRun::MakePublish(const PublishCall& call) {
  AdvanceIfSliced();
  if (!failure_.empty()) return;
  const auto result = ledger_.Publish(call, now_);
  const Seen seen = Look();
  model_.Publish(call, now_, result, seen);
  Follow(ToText(call), result.ok() ? ToText(*result) : ToText(result.status()), seen);
  if (call.idempotency_key == 0) return;
  Keyed keyed{.publish = call, .kind = Keyed::kPublish, .prefix = *call.prefix};
  keyed.list.assign(call.blocks.begin(), call.blocks.end());
  keyed_.push_back(keyed);
}

void LedgerRun::Lookup() {
  LookupCall call;
  call.caller = AnyCaller();
  const PrefixKeys prefix = AnyPrefix(call.caller.tenant);
  call.prefix = &prefix;
  call.acquire = !random_.OneIn(3);
  call.idempotency_key = AnyKey();
  MakeLookup(call);
}

void LedgerRun::MakeLookup(const LookupCall& call) {
  AdvanceIfSliced();
  if (!failure_.empty()) return;
  const auto result = ledger_.Lookup(call, now_);
  const Seen seen = Look();
  model_.Lookup(call, now_, result, seen);
  Follow(ToText(call), result.ok() ? ToText(result->blocks) : ToText(result.status()), seen);
  if (call.idempotency_key == 0) return;
  keyed_.push_back({.lookup = call, .kind = Keyed::kLookup, .prefix = *call.prefix});
}

// Findable blocks, of the tenant mostly; at times a block and all that goes on after it.
std::vector<BlockRef> LedgerRun::SomeFindable(absl::string_view tenant) {
  const ModelState& state = model_.state();
  std::vector<PrefixKey> keys;
  for (const auto& [key, entry] : state.findable) {
    const bool is_own = absl::string_view(state.blocks[entry.block].tenant) == tenant;
    if (is_own || random_.OneIn(15)) keys.push_back(key);
  }
  std::vector<BlockRef> list;
  if (keys.empty()) return list;
  const PrefixKey top = OneOf(keys);
  const bool is_tree = random_.OneIn(2);
  for (const PrefixKey& key : keys) {
    const bool is_below =
        SpaceOf(key) == SpaceOf(top) && TextOf(key).substr(0, TextOf(top).size()) == TextOf(top);
    if (is_tree ? is_below : random_.OneIn(3)) {
      const uint32_t block = state.findable.at(key).block;
      list.push_back({.block = BlockId{block}, .generation = AnyGeneration(block)});
    }
  }
  for (size_t i = list.size(); i > 1; --i) {
    std::swap(list[i - 1], list[random_.Below(static_cast<uint32_t>(i))]);
  }
  return list;
}

void LedgerRun::Evict() {
  Advance();
  if (!failure_.empty()) return;
  EvictCall call;
  call.caller = AnyCaller();
  std::vector<BlockRef> list;
  if (random_.OneIn(2)) {
    list = random_.OneIn(5) ? SomeBlocks(call.caller.session) : SomeFindable(call.caller.tenant);
  }
  if (list.empty() || random_.OneIn(40)) call.count = random_.Below(4);
  call.blocks = list;
  const auto result = ledger_.Evict(call, now_);
  const Seen seen = Look();
  model_.Evict(call, now_, result, seen);
  Follow(ToText(call),
         result.ok() ? absl::StrCat(ToText(result->blocks), " freed=", result->freed)
                     : ToText(result.status()),
         seen);
}

void LedgerRun::ResetPrefixes() {
  Advance();
  if (!failure_.empty()) return;
  std::optional<absl::string_view> tenant;
  if (!random_.OneIn(3)) tenant = random_.OneIn(2) ? "alpha" : "beta";
  const uint32_t result = ledger_.ResetPrefixes(tenant, now_);
  const Seen seen = Look();
  model_.ResetPrefixes(tenant, now_, result, seen);
  Follow(absl::StrCat("ResetPrefixes{", std::string(tenant.value_or("")), "}"),
         absl::StrCat(result), seen);
}

}  // namespace kvpool::test
