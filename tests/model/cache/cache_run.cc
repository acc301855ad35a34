#include "tests/model/cache/cache_run.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "core/error.h"

namespace kvpool::test {
namespace {

PrefixKey KeyOf(const std::string& text) {
  PrefixKey key;
  key.bytes[0] = static_cast<uint8_t>(text.size());
  std::memcpy(key.bytes.data() + 1, text.data(), text.size());
  return key;
}

PrefixKeys KeysOf(const ModelPrefix& prefix) {
  PrefixKeys keys;
  keys.root = KeyOf(std::string(1, prefix.space));
  if (!prefix.parent.empty()) keys.parent = KeyOf(prefix.Key(0));
  for (size_t i = 1; i <= prefix.text.size(); ++i) keys.blocks.push_back(KeyOf(prefix.Key(i)));
  return keys;
}

std::string Said(const absl::Status& status) {
  if (status.ok()) return "";
  const absl::string_view reason = ReasonName(GetErrorDetail(status).reason);
  return absl::StrCat(absl::StatusCodeToString(status.code()), " ",
                      reason.empty() || reason == "REASON_UNSPECIFIED" ? "UNSPECIFIED" : reason);
}

std::string ToText(const std::vector<BlockRef>& refs) {
  std::string text = "[";
  for (const BlockRef& ref : refs) {
    absl::StrAppend(&text, " ", ToIndex(ref.block), "@", static_cast<uint64_t>(ref.generation));
  }
  return text + " ]";
}

std::string ToText(const ModelPrefix& prefix) {
  return absl::StrCat(std::string(1, prefix.space), ":", prefix.parent, "+", prefix.text);
}

std::vector<std::string> TenantNames(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(absl::StrCat("tenant", i));
  return names;
}

}  // namespace

CacheRun::CacheRun(const CacheRunOptions& options, Random& random)
    : options_(options),
      random_(random),
      ledger_(options.ledger),
      watchers_(ledger_, random, TenantNames(options.tenants)),
      model_(options.ledger) {
  if (options.ledger.eviction_policy != EvictionPolicyName::kLeafLru) {
    model_.SetChooser([this](const std::vector<uint32_t>& leaves) { return Choose(leaves); });
  }
}

std::string CacheRun::Step() {
  wrong_.clear();
  now_ += std::chrono::milliseconds(random_.Below(50));
  const size_t session = random_.Below(static_cast<uint32_t>(options_.sessions));
  const uint32_t call = random_.Below(100);
  if (!ids_.contains(session)) {
    DoOpen(session);
  } else if (call < 2) {
    DoClose(session);
  } else if (call < 24) {
    DoAlloc(session);
  } else if (call < 26) {
    DoCancel();
  } else if (call < 33) {
    DoIncRef(session);
  } else if (call < 58) {
    DoDecRef(session);
  } else if (call < 80) {
    DoPublish(session);
  } else if (call < 94) {
    DoLookup(session);
  } else if (call < 99) {
    DoEvict(session);
  } else {
    DoReset();
  }
  Serve();
  Compare();
  Complain(watchers_.Step());
  if (random_.OneIn(8)) Complain(watchers_.Compare(Findable()));
  return wrong_;
}

void CacheRun::DoOpen(size_t session) {
  const ModelSession opened = {
      .tenant = session % options_.tenants,
      .guarantee = options_.max_guarantee > 0 ? random_.Below(options_.max_guarantee + 1) : 0};
  call_ = absl::StrCat("open ", session, " guarantee ", opened.guarantee);
  SessionId id;
  id.bytes.fill(++opened_);
  id.bytes[0] = static_cast<uint8_t>(session);
  id.bytes[1] = static_cast<uint8_t>(random_.Next());
  id.bytes[2] = static_cast<uint8_t>(random_.Next());
  const std::string tenant = TenantOf(opened.tenant);
  const auto result = ledger_.OpenSession({.id = id,
                                           .tenant = tenant,
                                           .model_id = "m",
                                           .ttl = std::chrono::hours(1),
                                           .guaranteed_blocks = opened.guarantee},
                                          now_);
  Collect();
  Expect(model_.Open(session, opened), result.status());
  if (result.ok()) ids_[session] = id;
}

void CacheRun::DoClose(size_t session) {
  call_ = absl::StrCat("close ", session);
  const absl::Status status = ledger_.CloseSession(Of(session), now_);
  Collect();
  // What it waited for ends with it, first of all.
  std::erase_if(served_,
                [](const Served& served) { return absl::IsNotFound(served.result.status()); });
  Expect("", status);
  model_.Close(session);
  ids_.erase(session);
}

void CacheRun::DoAlloc(size_t session) {
  ModelDemand demand{.session = session, .count = random_.Below(4)};
  if (random_.OneIn(40)) demand.count = options_.ledger.num_blocks + random_.Below(2);
  PrefixKeys keys;
  if (random_.OneIn(2)) {
    demand.prefix = RandomPrefix(session, options_.max_text);
    demand.count += random_.Below(static_cast<uint32_t>(demand.prefix->text.size()) + 1);
    if (random_.OneIn(4)) demand.max_new = 1 + random_.Below(2);
    keys = KeysOf(*demand.prefix);
  }
  const bool waits = options_.max_guarantee == 0 && random_.OneIn(2);
  call_ = absl::StrCat("alloc ", session, " count ", demand.count, " max new ", demand.max_new,
                       demand.prefix.has_value() ? " " + ToText(*demand.prefix) : "",
                       waits ? " waits" : "");
  const auto queue = demand.prefix.has_value() ? WaitQueue::kAdmit : WaitQueue::kGrow;
  const auto outcome = ledger_.Alloc(
      {.caller = Of(session),
       .count = demand.count,
       .prefix = demand.prefix.has_value() ? &keys : nullptr,
       .max_new_blocks = demand.max_new,
       .wait = waits ? std::optional<Duration>(std::chrono::minutes(1)) : std::nullopt,
       .queue = queue},
      now_);
  Collect();
  const bool is_first =
      model_.grow().empty() && (queue == WaitQueue::kGrow || model_.admit().empty());
  const std::string expected = model_.Judge(demand, is_first);
  if (waits && expected == "RESOURCE_EXHAUSTED POOL_FULL") {
    Expect("", outcome.status());
    if (!outcome.ok()) return;
    demand.id = outcome->pending;
    (queue == WaitQueue::kGrow ? model_.grow() : model_.admit()).push_back(demand);
    return;
  }
  Expect(expected, outcome.status());
  if (!outcome.ok() || !expected.empty()) return;
  AllocAnswer answer = outcome->answer;
  if (outcome->pending != PendingId{}) {
    const auto served = std::ranges::find(served_, outcome->pending, &Served::id);
    if (served == served_.end() || !served->result.ok()) {
      Complain("the fill of the call did not end it");
      return;
    }
    answer = *served->result;
    served_.erase(served);
  }
  Complain(model_.Give(demand, answer.blocks, answer.matched_blocks));
}

void CacheRun::DoCancel() {
  std::deque<ModelDemand>& queue = random_.OneIn(2) ? model_.grow() : model_.admit();
  call_ = "cancel";
  if (queue.empty()) return;
  const auto chosen = queue.begin() + random_.Below(static_cast<uint32_t>(queue.size()));
  const bool is_cancelled = ledger_.Cancel(chosen->id, now_);
  queue.erase(chosen);
  Collect();
  if (!is_cancelled) Complain("a call that waits is not cancelled");
}

void CacheRun::DoIncRef(size_t session) {
  const auto refs = RandomBlocks(session, 1 + random_.Below(3), /*may_be_others=*/true);
  call_ = absl::StrCat("inc ", session, " ", ToText(refs));
  const absl::Status status = ledger_.IncRef({.caller = Of(session), .blocks = refs}, now_);
  Collect();
  Expect(model_.IncRef(session, refs), status);
}

void CacheRun::DoDecRef(size_t session) {
  const auto refs = RandomBlocks(session, 1 + random_.Below(4), random_.OneIn(10));
  const bool done = random_.OneIn(3);
  call_ = absl::StrCat("dec ", session, " ", ToText(refs), done ? " done" : "");
  const auto answer = ledger_.DecRef({.caller = Of(session), .blocks = refs, .done = done}, now_);
  Collect();
  CacheModel::Dropped dropped;
  Expect(model_.DecRef(session, refs, dropped), answer.status());
  if (!answer.ok()) return;
  if (answer->freed != dropped.freed || answer->cached != dropped.cached) {
    Complain(absl::StrCat("freed ", answer->freed, " and cached ", answer->cached, ", not ",
                          dropped.freed, " and ", dropped.cached));
  }
}

void CacheRun::DoPublish(size_t session) {
  ModelPrefix prefix = RandomPrefix(session, options_.max_text);
  uint32_t skip = 0;
  if (random_.OneIn(3)) {
    // As an engine does: what is findable is skipped.
    skip = static_cast<uint32_t>(model_.Match(prefix, prefix.text.size()).size());
    if (random_.OneIn(8)) skip += 1;
  }
  size_t count = prefix.text.size() - std::min<size_t>(skip, prefix.text.size());
  if (random_.OneIn(30)) ++count;
  const auto refs = RandomBlocks(session, count, random_.OneIn(20));
  prefix.text.resize(std::min(prefix.text.size(), skip + refs.size()));
  call_ = absl::StrCat("publish ", session, " ", ToText(prefix), " skip ", skip, " ", ToText(refs));
  const PrefixKeys keys = KeysOf(prefix);
  const auto answer =
      ledger_.Publish({.caller = Of(session), .prefix = &keys, .skip = skip, .blocks = refs}, now_);
  Collect();
  CacheModel::Published published;
  Expect(model_.Publish(session, prefix, skip, refs, published), answer.status());
  if (!answer.ok()) return;
  std::map<uint32_t, uint32_t> duplicates;
  for (const Duplicate& duplicate : answer->duplicates) {
    duplicates[duplicate.index] = ToIndex(duplicate.known.block);
  }
  if (answer->published != published.published || duplicates != published.duplicates) {
    Complain("published, or duplicates, are others");
  }
}

void CacheRun::DoLookup(size_t session) {
  const ModelPrefix prefix = RandomPrefix(session, options_.max_text);
  const bool acquire = random_.OneIn(2);
  call_ = absl::StrCat("lookup ", session, " ", ToText(prefix), acquire ? " acquire" : "");
  const PrefixKeys keys = KeysOf(prefix);
  const auto answer =
      ledger_.Lookup({.caller = Of(session), .prefix = &keys, .acquire = acquire}, now_);
  Collect();
  const std::vector<uint32_t> found = model_.Match(prefix, SIZE_MAX);
  Expect(acquire ? model_.Acquire(session, found) : "", answer.status());
  if (!answer.ok()) return;
  std::vector<uint32_t> blocks;
  for (const BlockRef& ref : answer->blocks) blocks.push_back(ToIndex(ref.block));
  if (blocks != found) Complain("other blocks are found");
  if (answer->last_key != keys.LastKey(found.size())) Complain("another last key");
}

void CacheRun::DoEvict(size_t session) {
  if (random_.OneIn(2)) {
    const uint32_t count = 1 + random_.Below(3);
    call_ = absl::StrCat("evict ", session, " count ", count);
    const auto answer = ledger_.Evict({.caller = Of(session), .count = count}, now_);
    Collect();
    Expect("", answer.status());
    if (!answer.ok()) return;
    std::vector<uint32_t> blocks;
    for (const BlockId block : answer->blocks) blocks.push_back(ToIndex(block));
    std::vector<uint32_t> expected = model_.EvictCount(session, count);
    if (options_.ledger.eviction_policy != EvictionPolicyName::kLeafLru) {
      std::ranges::sort(blocks);
      std::ranges::sort(expected);
    }
    if (blocks != expected || answer->freed != blocks.size()) Complain("others are evicted");
    return;
  }
  const auto refs = RandomBlocks(session, 1 + random_.Below(3), /*may_be_others=*/true);
  call_ = absl::StrCat("evict ", session, " ", ToText(refs));
  const auto answer = ledger_.Evict({.caller = Of(session), .blocks = refs}, now_);
  Collect();
  std::set<uint32_t> expected;
  Expect(model_.EvictListed(session, refs, expected), answer.status());
  if (!answer.ok()) return;
  std::set<uint32_t> evicted;
  for (const BlockId block : answer->blocks) evicted.insert(ToIndex(block));
  if (evicted != expected || answer->blocks.size() != expected.size()) {
    Complain("others are evicted than those listed");
  }
}

void CacheRun::DoReset() {
  std::optional<size_t> tenant;
  if (random_.OneIn(2)) tenant = random_.Below(static_cast<uint32_t>(options_.tenants));
  call_ = absl::StrCat("reset ", tenant.has_value() ? TenantOf(*tenant) : "all");
  const std::string name = TenantOf(tenant.value_or(0));
  const uint32_t forgotten = ledger_.ResetPrefixes(
      tenant.has_value() ? std::optional<absl::string_view>(name) : std::nullopt, now_);
  Collect();
  if (forgotten != model_.Reset(tenant)) Complain("another number is forgotten");
}

void CacheRun::Collect() {
  for (auto events = ledger_.TakeEvents(); !events.empty(); events = ledger_.TakeEvents()) {
    for (LedgerEvent& event : events) {
      if (const auto* fill = std::get_if<FillNeeded>(&event)) {
        served_.push_back({.id = fill->id, .result = absl::InternalError("being filled")});
        ledger_.FillDone(fill->id, absl::OkStatus(), now_);
      } else if (auto* done = std::get_if<AllocDone>(&event)) {
        const auto known = std::ranges::find(served_, done->id, &Served::id);
        if (known == served_.end()) {
          served_.push_back({.id = done->id, .result = std::move(done->result)});
        } else {
          known->result = std::move(done->result);
        }
      }
    }
  }
}

void CacheRun::Serve() {
  while (ServeFront(model_.grow())) {
  }
  while (model_.grow().empty() && ServeFront(model_.admit())) {
  }
  if (!served_.empty()) Complain("a call is served that must wait");
  served_.clear();
}

bool CacheRun::ServeFront(std::deque<ModelDemand>& queue) {
  if (queue.empty()) return false;
  const ModelDemand demand = queue.front();
  const std::string expected = model_.Judge(demand, /*is_first=*/true);
  if (expected == "RESOURCE_EXHAUSTED POOL_FULL") return false;
  queue.pop_front();
  if (served_.empty() || served_.front().id != demand.id) {
    Complain("a waiting call is not served in its turn");
    return false;
  }
  const Served served = std::move(served_.front());
  served_.erase(served_.begin());
  Expect(expected, served.result.status());
  if (!served.result.ok()) return true;
  Complain(model_.Give(demand, served.result->blocks, served.result->matched_blocks));
  return true;
}

void CacheRun::Compare() {
  const LedgerCounts counts = ledger_.counts();
  if (counts.free_blocks != model_.CountFree()) Complain("another number of blocks is free");
  if (counts.cached_blocks != model_.CountCached()) Complain("another number is cached");
  for (uint32_t i = 0; i < options_.ledger.num_blocks; ++i) CompareBlock(i);
  const absl::Status status = ledger_.CheckInvariants();
  if (!status.ok()) Complain(status.ToString());
}

void CacheRun::CompareBlock(uint32_t id) {
  const BlockInfo info = ledger_.GetBlock(BlockId{id});
  const ModelBlock& block = model_.blocks()[id];
  uint32_t references = block.is_findable ? 1 : 0;
  for (const auto& [session, count] : block.holders) references += count;
  const BlockState state = !block.holders.empty() ? BlockState::kHeld
                           : block.is_findable    ? BlockState::kCached
                                                  : BlockState::kFree;
  if (info.state != state || info.ref_count != references || info.published != block.is_findable ||
      info.sealed != !block.key.empty() ||
      static_cast<uint64_t>(info.generation) != block.generation ||
      info.holders.size() != block.holders.size()) {
    Complain(absl::StrCat("block ", id, " is not as it should be: state ",
                          static_cast<int>(info.state), ", not ", static_cast<int>(state),
                          "; references ", info.ref_count, ", not ", references, "; published ",
                          info.published, ", not ", block.is_findable));
  }
}

WatchedIndex::Entries CacheRun::Findable() const {
  WatchedIndex::Entries entries;
  for (uint32_t i = 0; i < options_.ledger.num_blocks; ++i) {
    const ModelBlock& block = model_.blocks()[i];
    if (!block.is_findable) continue;
    // A key is a space, a colon and a text.
    const std::string parent = block.key.substr(0, block.key.size() - 1);
    entries[KeyOf(block.key)] = {
        .block = {.block = BlockId{i}, .generation = Generation{block.generation}},
        .parent = parent.size() > 2 ? std::optional(KeyOf(parent)) : std::nullopt,
        .tenant = TenantOf(block.tenant),
        .model_id = "m"};
  }
  return entries;
}

void CacheRun::Complain(const std::string& what) {
  if (wrong_.empty()) wrong_ = what;
}

void CacheRun::Expect(const std::string& expected, const absl::Status& status) {
  if (Said(status) != expected) {
    Complain(absl::StrCat("it said '", status.ToString(), "', not '", expected, "'"));
  }
}

Caller CacheRun::Of(size_t session) const {
  static const std::vector<std::string>& names =
      *new std::vector<std::string>{"tenant0", "tenant1", "tenant2", "tenant3"};
  return {.session = ids_.at(session), .tenant = names[session % options_.tenants]};
}

ModelPrefix CacheRun::RandomPrefix(size_t session, size_t max_text) {
  const auto tenant = static_cast<char>(session % options_.tenants);
  ModelPrefix prefix;
  prefix.space = static_cast<char>('A' + 2 * tenant + (random_.OneIn(6) ? 1 : 0));
  std::string text;
  const size_t length = 1 + random_.Below(static_cast<uint32_t>(max_text));
  for (size_t i = 0; i < length; ++i) {
    text += static_cast<char>('a' + random_.Below(static_cast<uint32_t>(options_.letters)));
  }
  if (random_.OneIn(4)) {
    const size_t split = random_.Below(static_cast<uint32_t>(length) + 1);
    prefix.parent = text.substr(0, split);
    text = text.substr(split);
  }
  prefix.text = text;
  return prefix;
}

std::vector<BlockRef> CacheRun::RandomBlocks(size_t session, size_t count, bool may_be_others) {
  std::vector<uint32_t> from = model_.Held(session);
  if (may_be_others || from.empty()) {
    from.clear();
    for (uint32_t i = 0; i < options_.ledger.num_blocks; ++i) from.push_back(i);
  }
  std::vector<BlockRef> refs;
  std::vector<uint32_t> left = from;
  for (size_t i = 0; i < count; ++i) {
    // Most lists name a block once.
    if (left.empty() || random_.OneIn(12)) left = from;
    const auto chosen = left.begin() + random_.Below(static_cast<uint32_t>(left.size()));
    BlockRef ref{.block = BlockId{*chosen}};
    if (!random_.OneIn(3)) {
      ref.generation =
          Generation{model_.blocks()[*chosen].generation + (random_.OneIn(25) ? 1 : 0)};
    }
    left.erase(chosen);
    refs.push_back(ref);
  }
  return refs;
}

std::optional<uint32_t> CacheRun::Choose(const std::vector<uint32_t>& leaves) const {
  for (const uint32_t id : leaves) {
    const BlockInfo info = ledger_.GetBlock(BlockId{id});
    // One that was given anew since, or is simply found no more.
    if (!info.published ||
        static_cast<uint64_t>(info.generation) != model_.blocks()[id].generation) {
      return id;
    }
  }
  return std::nullopt;
}

}  // namespace kvpool::test
