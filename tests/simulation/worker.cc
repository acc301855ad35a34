#include "tests/simulation/worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/check.h"

namespace kvpool::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kMaxPosted = 3;
// The prefixes of blocks that are of no sequence: under the first they are looked for, the second
// is of what a dead worker may have written half.
constexpr uint32_t kLooseToken = 3;
constexpr uint32_t kHalfToken = 4;
constexpr size_t kMaxOffers = 4;
constexpr size_t kMaxSequences = 3;
constexpr size_t kMaxLoose = 6;

// Whether the call may have had its effect or not.
bool IsUnanswered(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status);
}

bool IsSessionUnknown(const absl::Status& status) {
  return GetErrorDetail(status).reason == Reason::kSessionUnknown;
}

}  // namespace

Worker::Worker(Scheduler& scheduler, Network& network, Board& board, const std::string& tenant,
               uint64_t seed)
    : network_(network),
      board_(board),
      tenant_(tenant),
      process_(scheduler, seed),
      link_(process_, network, tenant),
      transport_(std::make_shared<Transport>(link_)) {
  absl::StatusOr<client::Client> client =
      client::Client::Create({.socket = "unix:/simulated",
                              .clock = [this] { return process_.now(); },
                              .runtime = &runtime_,
                              .transport = transport_});
  KVPOOL_CHECK(client.ok());
  client_ = *std::move(client);
  process_.Start([this] { Run(); });
}

void Worker::Post(const Action& action) {
  if (queue_.size() >= kMaxPosted) return;
  queue_.push_back(action);
  if (idle_ != nullptr) process_.Wake(idle_);
}

void Worker::Finish() {
  must_finish_ = true;
  if (idle_ != nullptr) process_.Wake(idle_);
}

void Worker::Kill(Duration until_gone) {
  if (process_.is_dead()) return;
  link_.Break(milliseconds(process_.random.Below(1000)));
  process_.Kill();
  for (const WaitPtr& wait : {idle_, quiescing_}) {
    if (wait != nullptr) process_.Wake(wait);
  }
  process_.scheduler.After(until_gone, [this] {
    is_gone_ = true;
    link_.TellGone();
  });
}

void Worker::Stop() {
  if (process_.is_dead() || process_.is_stopped()) return;
  process_.Stop();
  // The daemon's pings get no answer.
  process_.scheduler.After(milliseconds(10'000 + process_.random.Below(10'000)),
                           [this, count = process_.stop_count()] {
                             if (process_.is_stopped() && process_.stop_count() == count) {
                               link_.BreakByDaemon();
                             }
                           });
}

std::optional<SessionId> Worker::session() const {
  if (session_ == nullptr || !session_->alive()) return std::nullopt;
  return session_->id();
}

void Worker::CheckKnowledge() {
  if (session_ == nullptr || session_->alive() == !is_over()) return;
  Fail(is_over() ? "is not told that its session is over" : "takes a session for over that lives");
}

void Worker::Run() {
  while (!process_.is_dead()) {
    if (!queue_.empty()) {
      const Action action = queue_.front();
      queue_.pop_front();
      random_ = test::Random(action.seed);
      Do(action);
    } else if (must_finish_) {
      break;
    } else {
      idle_ = process_.BeginWait();
      process_.Await(idle_);
      idle_ = nullptr;
    }
  }
  Quiesce();
  Close();
  client_.reset();
  has_ended_ = true;
  if (!process_.is_dead()) process_.scheduler.After(Duration::zero(), [this] { Kill({}); });
}

void Worker::Do(const Action& action) {
  if (!EnsureSession()) return;
  switch (action.kind) {
    case ActionKind::kAlloc:
      Alloc();
      break;
    case ActionKind::kAdmit:
      Admit();
      break;
    case ActionKind::kFind:
      Find();
      break;
    case ActionKind::kPeek:
      Peek();
      break;
    case ActionKind::kWrite:
      Write();
      break;
    case ActionKind::kPublish:
      Publish();
      break;
    case ActionKind::kRelease:
      Release();
      break;
    case ActionKind::kOffer:
      Offer();
      break;
    case ActionKind::kTake:
      Take();
      break;
    case ActionKind::kEvict:
      Evict();
      break;
    case ActionKind::kReopen:
      Quiesce();
      Close();
      return;
    default:
      return;
  }
  if (!process_.is_dead() && random_.OneIn(3)) CheckReferences();
}

bool Worker::EnsureSession() {
  if (session_ != nullptr && !session_->alive()) {
    // What is void by now may still be written to, until its kernels are waited for.
    if (random_.OneIn(2)) Write();
    Quiesce();
    Close();
  }
  if (session_ != nullptr || process_.is_dead()) return !process_.is_dead();
  has_seen_unknown_ = false;
  is_certain_ = true;
  lost_count_ = 0;
  breaks_at_open_ = link_.break_count();
  absl::StatusOr<std::unique_ptr<client::Session>> opened = client_->OpenSession(
      {.pool = "p",
       .model_id = "m",
       .guaranteed_blocks = random_.OneIn(4) ? 1 + random_.Below(2) : 0,
       .on_notice =
           [this](const client::Notice& notice) {
             if (lost_count_ > 0) Fail("is told of something after its session's loss");
             if (notice.kind == client::Notice::Kind::kLost) ++lost_count_;
           },
       .on_release_failure =
           [this](std::span<const BlockRef> /*blocks*/, const absl::Status& status) {
             if (process_.is_dead()) return;
             if (IsUnanswered(status)) {
               is_certain_ = false;
             } else if (is_certain_ && !IsSessionUnknown(status)) {
               Fail(absl::StrCat("cannot give back what it holds: ", status.ToString()));
             }
           }});
  if (process_.is_dead()) return false;
  if (opened.ok()) {
    session_ = *std::move(opened);
    epoch_ = is_over() ? 0 : network_.daemon->epoch();
    return true;
  }
  const Reason reason = GetErrorDetail(opened.status()).reason;
  if (!IsUnanswered(opened.status()) && reason != Reason::kGuarantee &&
      reason != Reason::kSessionUnknown) {
    Fail(absl::StrCat("cannot open a session: ", opened.status().ToString()));
  }
  return false;
}

void Worker::Close() {
  if (session_ == nullptr) return;
  // Leases end before the session, or with it.
  if (random_.OneIn(2)) {
    sequences_.clear();
    loose_.clear();
    if (random_.OneIn(2)) session_->Flush().IgnoreError();
  }
  const bool was_over = is_over();
  const bool has_broken = link_.break_count() != breaks_at_open_;
  const SessionId id = session_->id();
  const absl::Status status = session_->Close();
  if (!process_.is_dead()) {
    if (!status.ok() && !IsUnanswered(status)) {
      Fail(absl::StrCat("cannot close its session: ", status.ToString()));
    }
    if (status.ok() && oracle() != nullptr && !was_over && !has_broken && oracle()->IsLive(id)) {
      Fail("has closed a session that lives");
    }
    if (lost_count_ > 1) Fail("is told twice that its session is lost");
  }
  sequences_.clear();
  loose_.clear();
  session_.reset();
}

void Worker::Alloc() {
  if (loose_.size() >= kMaxLoose) return Release();
  const uint32_t count = 1 + random_.Below(3);
  client::AllocOptions options;
  options.wait = SomeWait();
  options.allow_partial = options.wait == Duration{} && random_.OneIn(4);
  if (random_.OneIn(3)) options.fill = Fill::kZero;
  std::vector<client::BlockLease> release;
  Held released;
  if (!loose_.empty() && random_.OneIn(4)) {
    Quiesce();
    released = std::move(loose_.back());
    loose_.pop_back();
    release.push_back(std::move(released.lease));
    options.release = release;
  }
  const Before before = BeforeCall();
  absl::StatusOr<std::vector<client::BlockLease>> blocks = session_->Alloc(count, options);
  if (process_.is_dead()) return;
  Judge("Alloc", before, blocks.status(), {Reason::kPoolFull, Reason::kQuota});
  CheckTime("Alloc", before, options.wait);
  if (!release.empty() && !release.front().is_empty()) {
    released.lease = std::move(release.front());
    loose_.push_back(std::move(released));
  }
  if (!blocks.ok()) return;
  std::vector<BlockRef> refs;
  for (client::BlockLease& lease : *blocks) {
    refs.push_back(lease.ref());
    loose_.push_back({.lease = std::move(lease)});
  }
  if (!is_over()) oracle()->CheckBirths({.session = session_->id()}, refs, before.time);
  if (random_.OneIn(2)) Write();
}

void Worker::Admit() {
  if (sequences_.size() >= kMaxSequences) return Release();
  Sequence sequence{.tokens = SomeTokens(1)};
  client::AcquireOptions options;
  options.wait = SomeWait();
  if (random_.OneIn(4)) options.fill = Fill::kZero;
  if (random_.OneIn(4)) options.max_new_blocks = 1;
  const Before before = BeforeCall();
  const auto total = static_cast<uint32_t>(sequence.tokens.size());
  absl::StatusOr<client::AcquiredBlocks> acquired =
      session_->Acquire({.tokens = sequence.tokens}, total, options);
  if (process_.is_dead()) return;
  Judge("Acquire", before, acquired.status(), {Reason::kPoolFull, Reason::kQuota});
  CheckTime("Acquire", before, options.wait);
  if (!acquired.ok()) return;
  sequence.matched = acquired->matched_blocks;
  std::vector<BlockRef> refs;
  for (size_t i = 0; i < acquired->blocks.size(); ++i) {
    if (i >= sequence.matched) refs.push_back(acquired->blocks[i].ref());
  }
  CheckFound(sequence.tokens, std::span(acquired->blocks).first(sequence.matched));
  if (!is_over()) oracle()->CheckBirths({.session = session_->id()}, refs, before.time);
  sequence.tokens.resize(acquired->blocks.size());
  for (client::BlockLease& lease : acquired->blocks) {
    const bool is_found = sequence.blocks.size() < sequence.matched;
    sequence.blocks.push_back({.lease = std::move(lease), .is_frozen = is_found});
  }
  for (size_t i = sequence.matched; i < sequence.blocks.size(); ++i) {
    StartWrite(sequence.blocks[i], PrefixOf(sequence.tokens, i + 1));
  }
  sequences_.push_back(std::move(sequence));
}

void Worker::Find() {
  if (sequences_.size() >= kMaxSequences) return Release();
  Sequence sequence{.tokens = SomeTokens(1), .is_published = true};
  const Before before = BeforeCall();
  absl::StatusOr<client::FoundPrefix> found = session_->Lookup({.tokens = sequence.tokens});
  if (process_.is_dead()) return;
  Judge("Lookup", before, found.status(), {Reason::kPoolFull});
  if (!found.ok() || found->blocks.empty()) return;
  CheckFound(sequence.tokens, found->blocks);
  sequence.matched = static_cast<uint32_t>(found->blocks.size());
  sequence.tokens.resize(sequence.matched);
  for (client::BlockLease& lease : found->blocks) {
    sequence.blocks.push_back({.lease = std::move(lease), .is_frozen = true});
  }
  sequences_.push_back(std::move(sequence));
}

void Worker::Peek() {
  const std::vector<uint32_t> tokens = SomeTokens(1);
  const Before before = BeforeCall();
  const absl::StatusOr<client::PrefixHint> hint = session_->Peek({.tokens = tokens});
  if (!process_.is_dead()) Judge("Peek", before, hint.status(), {}, /*is_effect=*/false);
}

void Worker::Write() {
  // One at a time on a block, so that it is known which is the last.
  Quiesce();
  if (process_.is_dead()) return;
  for (Held& held : loose_) {
    if (!held.is_frozen && random_.OneIn(2)) StartWrite(held, PrefixOf({kLooseToken}, 1));
  }
  for (Sequence& sequence : sequences_) {
    if (sequence.is_published || !random_.OneIn(2)) continue;
    for (size_t i = sequence.matched; i < sequence.blocks.size(); ++i) {
      if (!sequence.blocks[i].is_frozen) {
        StartWrite(sequence.blocks[i], PrefixOf(sequence.tokens, i + 1));
      }
    }
  }
}

void Worker::Publish() {
  if (random_.OneIn(3) && PublishTaken()) return;
  const auto sequence = std::ranges::find(sequences_, false, &Sequence::is_published);
  if (sequence == sequences_.end()) return Admit();
  Quiesce();
  if (process_.is_dead()) return;
  sequence->is_published = true;
  std::vector<BlockRef> refs;
  for (size_t i = sequence->matched; i < sequence->blocks.size(); ++i) {
    Held& held = sequence->blocks[i];
    if (!is_over()) oracle()->CheckOwn(session_->id(), held.lease.ref(), held.stamp);
    // Whatever the answer is: it may be lost.
    held.is_frozen = true;
    refs.push_back(held.lease.ref());
  }
  if (refs.empty()) return;
  const Before before = BeforeCall();
  const absl::StatusOr<client::Published> published =
      session_->Publish({.tokens = sequence->tokens}, refs, sequence->matched);
  if (process_.is_dead()) return;
  Judge("Publish", before, published.status(), {Reason::kParentUnknown, Reason::kClaimed});
}

bool Worker::PublishTaken() {
  const auto taken = std::ranges::find_if(loose_, [](const Held& held) {
    return held.from != nullptr && (held.from->is_dead() || held.from->pending_writes_ == 0);
  });
  if (taken == loose_.end()) return false;
  const std::vector<uint32_t> tokens = {taken->from->is_dead() ? kHalfToken : kLooseToken};
  const BlockRef ref = taken->lease.ref();
  const Before before = BeforeCall();
  const absl::StatusOr<client::Published> published =
      session_->Publish({.tokens = tokens}, {&ref, 1});
  if (process_.is_dead()) return true;
  Judge("Publish", before, published.status(), {Reason::kClaimed, Reason::kSealed});
  return true;
}

void Worker::Release() {
  Quiesce();
  if (process_.is_dead()) return;
  if (!sequences_.empty() && random_.OneIn(2)) {
    const auto sequence =
        sequences_.begin() + random_.Below(static_cast<uint32_t>(sequences_.size()));
    if (random_.OneIn(2)) {
      std::vector<client::BlockLease> leases;
      for (Held& held : sequence->blocks) leases.push_back(std::move(held.lease));
      sequences_.erase(sequence);
      const Before before = BeforeCall();
      const absl::Status status = session_->Done(leases);
      if (!process_.is_dead()) Judge("Done", before, status, {});
    } else {
      sequences_.erase(sequence);
    }
  } else if (!loose_.empty()) {
    const auto held = loose_.begin() + random_.Below(static_cast<uint32_t>(loose_.size()));
    client::BlockLease lease = std::move(held->lease);
    loose_.erase(held);
    if (random_.OneIn(2)) return;
    // OK, too, where the session has ended.
    const absl::Status status = lease.Release();
    if (process_.is_dead() || status.ok()) return;
    Judge("Release", BeforeCall(), status, {});
  }
}

void Worker::Offer() {
  // Its writes may be under way.
  const auto held = std::ranges::find_if(
      loose_, [](const Held& loose) { return !loose.is_frozen && loose.stamp.write != 0; });
  if (held == loose_.end()) return Alloc();
  held->is_frozen = true;
  board_.offers.push_back({.tenant = tenant_, .block = held->lease.ref(), .from = this});
  if (board_.offers.size() > kMaxOffers) board_.offers.pop_front();
}

void Worker::Take() {
  if (board_.offers.empty() || loose_.size() >= kMaxLoose) return Release();
  const Board::Offer offer =
      board_.offers[random_.Below(static_cast<uint32_t>(board_.offers.size()))];
  const Before before = BeforeCall();
  absl::StatusOr<std::vector<client::BlockLease>> leases = session_->IncRef({&offer.block, 1});
  if (process_.is_dead()) return;
  if (offer.tenant != tenant_ && absl::IsPermissionDenied(leases.status())) return;
  Judge("IncRef", before, leases.status(),
        {Reason::kStaleBlock, Reason::kNotLive, Reason::kPoolFull});
  if (!leases.ok()) return;
  if (offer.tenant != tenant_) Fail("has taken another tenant's block");
  loose_.push_back({.lease = std::move(leases->front()),
                    .is_frozen = true,
                    .from = offer.from == this ? nullptr : offer.from});
}

void Worker::Evict() {
  const Before before = BeforeCall();
  absl::StatusOr<client::Evicted> evicted;
  if (sequences_.empty() || random_.OneIn(2)) {
    evicted = session_->EvictNext(1 + random_.Below(3));
  } else {
    std::vector<BlockRef> refs;
    for (const Held& held : sequences_.front().blocks) refs.push_back(held.lease.ref());
    evicted = session_->Evict(refs);
  }
  if (process_.is_dead()) return;
  Judge("Evict", before, evicted.status(), {Reason::kNotLeaf}, /*is_effect=*/false);
}

void Worker::StartWrite(Held& held, uint32_t prefix) {
  held.stamp = {.prefix = prefix, .write = ++board_.last_write};
  ++pending_writes_;
  const Duration delay = random_.OneIn(8)
                             ? Duration(milliseconds(random_.Below(3'000)))
                             : Duration(std::chrono::microseconds(random_.Below(3'000)));
  process_.scheduler.After(
      delay, [this, block = held.lease.ref(), stamp = held.stamp, epoch = epoch_] {
        --pending_writes_;
        if (quiescing_ != nullptr && pending_writes_ == 0) process_.Wake(quiescing_);
        // A daemon's end leaves its memory to those that have mapped it.
        if (is_gone_ || network_.daemon == nullptr || network_.daemon->epoch() != epoch) return;
        oracle()->Land(block, stamp);
      });
}

void Worker::Quiesce() {
  while (pending_writes_ > 0 && !process_.is_dead()) {
    quiescing_ = process_.BeginWait();
    process_.Await(quiescing_);
    quiescing_ = nullptr;
  }
}

void Worker::CheckReferences() {
  if (session_ == nullptr || !is_certain_ || !session_->alive()) return;
  const absl::Status flushed = session_->Flush();
  if (process_.is_dead() || !is_certain_ || !flushed.ok()) return;
  // What an ended session could not give back went with it.
  if (is_over() || !session_->alive()) return;
  std::vector<BlockRef> refs;
  for (const Held& held : loose_) refs.push_back(held.lease.ref());
  for (const Sequence& sequence : sequences_) {
    for (const Held& held : sequence.blocks) refs.push_back(held.lease.ref());
  }
  oracle()->CheckReferences(session_->id(), std::move(refs));
}

void Worker::CheckFound(const std::vector<uint32_t>& tokens,
                        std::span<const client::BlockLease> blocks) {
  if (is_over()) return;
  for (size_t i = 0; i < blocks.size(); ++i) {
    oracle()->CheckFound(session_->id(), blocks[i].ref(), PrefixOf(tokens, i + 1));
  }
}

Worker::Before Worker::BeforeCall() const {
  return {.time = process_.now(), .is_over = is_over(), .stop_count = process_.stop_count()};
}

void Worker::Judge(const char* call, const Before& before, const absl::Status& status,
                   std::initializer_list<Reason> allowed, bool is_effect) {
  if (IsSessionUnknown(status)) {
    has_seen_unknown_ = true;
    if (!is_over() && link_.break_count() == breaks_at_open_) {
      Fail(absl::StrCat(call, ": SESSION_UNKNOWN, while the session lives"));
    }
    return;
  }
  if (has_seen_unknown_) {
    Fail(absl::StrCat(call, " after SESSION_UNKNOWN: ", status.ToString()));
  } else if (status.ok()) {
    if (before.is_over) Fail(absl::StrCat(call, " succeeds in a session that is over"));
  } else if (IsUnanswered(status)) {
    if (is_effect) is_certain_ = false;
  } else if (std::ranges::find(allowed, GetErrorDetail(status).reason) == allowed.end()) {
    Fail(absl::StrCat(call, ": ", status.ToString()));
  }
}

void Worker::CheckTime(const char* call, const Before& before, Duration wait) {
  // Another run's time before it: what was to be given back first.
  constexpr Duration kMost = 3 * seconds(15);
  if (process_.stop_count() != before.stop_count) return;
  if (process_.now() - before.time <= wait + kMost) return;
  Fail(absl::StrCat(call, " took ",
                    std::chrono::duration<double>(process_.now() - before.time).count(), " s"));
}

std::vector<uint32_t> Worker::SomeTokens(uint32_t min_count) {
  if (random_.OneIn(8)) return {kLooseToken};
  std::vector<uint32_t> tokens(min_count + random_.Below(4));
  for (uint32_t& token : tokens) token = random_.Below(2);
  return tokens;
}

uint32_t Worker::PrefixOf(const std::vector<uint32_t>& tokens, size_t count) const {
  // Three bits a token, and the tenant.
  uint32_t prefix = 1;
  for (size_t i = 0; i < count; ++i) prefix = 8 * prefix + tokens[i];
  return (static_cast<uint32_t>(tenant_.back()) << 16) + prefix;
}

Duration Worker::SomeWait() {
  return random_.OneIn(3) ? milliseconds(1 + random_.Below(20'000)) : Duration{};
}

Oracle* Worker::oracle() const {
  return network_.daemon == nullptr ? nullptr : &network_.daemon->oracle();
}

bool Worker::is_over() const { return oracle() == nullptr || !oracle()->IsLive(session_->id()); }

void Worker::Fail(const std::string& what) {
  process_.scheduler.Fail(absl::StrCat("a worker of ", tenant_, " ", what));
}

}  // namespace kvpool::simulation
