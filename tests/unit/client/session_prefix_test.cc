// A session's calls of the prefix cache: what they send, lease and give back, and what they do
// about answers that do not arrive.
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "client/session.h"
#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/unit/client/fixture.h"

namespace kvpool::client {
namespace {

constexpr uint32_t kBlockSize = 4;  // FakeDaemon's pool's.

std::vector<uint32_t> Tokens(uint32_t blocks) {
  std::vector<uint32_t> tokens(size_t{blocks} * kBlockSize);
  std::iota(tokens.begin(), tokens.end(), 7U);
  return tokens;
}

// Publishes blocks under `tokens` in a session of their own, which then ends. Returns what they
// were.
std::vector<BlockRef> PublishBefore(Fixture& fixture, const std::vector<uint32_t>& tokens) {
  const auto session = fixture.Open();
  const auto leases = session->Alloc(static_cast<uint32_t>(tokens.size() / kBlockSize)).value();
  const auto published = session->Publish({.tokens = tokens}, Refs(leases));
  REQUIRE(published.ok());
  REQUIRE(published->count == leases.size());
  return Refs(leases);
}

// Every call that speaks of a prefix or of what is cached.
struct NamedCall {
  std::string method;
  std::function<absl::Status(Session&)> make;
};

std::vector<NamedCall> AllCalls() {
  static const std::vector<uint32_t> tokens = Tokens(1);
  return {
      {"Publish", [](Session& session) { return session.Publish({}, {}).status(); }},
      {"Lookup", [](Session& session) { return session.Lookup({.tokens = tokens}).status(); }},
      {"Lookup", [](Session& session) { return session.Peek({.tokens = tokens}).status(); }},
      {"Acquire", [](Session& session) { return session.Acquire({.tokens = tokens}, 1).status(); }},
      {"Evict", [](Session& session) { return session.Evict({}).status(); }},
      {"Evict", [](Session& session) { return session.EvictNext(1).status(); }},
  };
}

TEST_CASE("A prefix reaches the daemon with all that it is made of") {
  Fixture fixture;
  const auto session = fixture.Open();
  SECTION("tokens") {
    const std::vector<uint32_t> tokens = {1, 2, 3, 4, 5};
    const std::vector<Prefix::Extra> extras = {
        {.first_token = 1, .token_count = 2, .hash = std::string("an\0image", 8)}};
    CHECK(session
              ->Peek({.tokens = tokens,
                      .parent_key = std::string("\0\xff", 2),
                      .extras = extras,
                      .adapter = "lora-2",
                      .salt = std::string("\0salt", 5)})
              .ok());
    const v1::Prefix sent = fixture.daemon.LastPrefix();
    CHECK(std::vector<uint32_t>(sent.tokens().begin(), sent.tokens().end()) == tokens);
    CHECK(sent.block_hashes().empty());
    CHECK(sent.parent_key() == std::string("\0\xff", 2));
    CHECK(sent.space().adapter() == "lora-2");
    CHECK(sent.space().salt() == std::string("\0salt", 5));
    REQUIRE(sent.extras_size() == 1);
    CHECK(sent.extras(0).first_token() == 1);
    CHECK(sent.extras(0).token_count() == 2);
    CHECK(sent.extras(0).hash() == std::string("an\0image", 8));
  }
  SECTION("hashes") {
    const std::vector<std::string> hashes = {std::string(16, '\0'), std::string(32, '\xff')};
    CHECK(session->Acquire({.block_hashes = hashes}, 2).ok());
    const v1::Prefix sent = fixture.daemon.LastPrefix();
    CHECK(sent.tokens().empty());
    CHECK(std::vector<std::string>(sent.block_hashes().begin(), sent.block_hashes().end()) ==
          hashes);
  }
}

TEST_CASE("An adapter's name that is not UTF-8 is refused; a salt may be any bytes") {
  Fixture fixture;
  const auto session = fixture.Open();
  const std::vector<uint32_t> tokens = {1, 2, 3, 4};
  const Prefix named = {.tokens = tokens, .adapter = "l\xF8ra"};
  const absl::Status status = session->Lookup(named).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(status.message() == R"(adapter "l\xf8ra" is not UTF-8)");
  CHECK(session->Peek(named).status() == status);
  CHECK(session->Publish(named, {}).status() == status);
  CHECK(session->Acquire(named, 1).status() == status);
  CHECK(session->Peek({.tokens = tokens, .salt = "\xF8"}).ok());
}

TEST_CASE("Publish says what became findable, and names the known block of each duplicate") {
  Fixture fixture;
  const std::vector<BlockRef> known = PublishBefore(fixture, Tokens(2));
  const auto session = fixture.Open();
  const auto leases = session->Alloc(3).value();
  const std::vector<uint32_t> tokens = Tokens(3);
  const auto published = session->Publish({.tokens = tokens}, Refs(leases));
  REQUIRE(published.ok());
  CHECK(published->count == 1);
  REQUIRE(published->duplicates.size() == 2);
  for (uint32_t i = 0; i < 2; ++i) {
    CHECK(published->duplicates[i].index == i);
    CHECK(published->duplicates[i].known == known[i]);
  }
  CHECK(session->Lookup({.tokens = tokens})->last_key == published->last_key);
}

TEST_CASE("Publish goes on after a key, or after blocks that it skips") {
  Fixture fixture;
  const auto session = fixture.Open();
  const auto leases = session->Alloc(3).value();
  const std::vector<BlockRef> refs = Refs(leases);
  const std::vector<uint32_t> tokens = Tokens(3);
  const auto first = session->Publish({.tokens = std::span(tokens).first(kBlockSize)}, {{refs[0]}});
  REQUIRE(first.ok());
  const auto second = session->Publish(
      {.tokens = std::span(tokens).subspan(kBlockSize, kBlockSize), .parent_key = first->last_key},
      {{refs[1]}});
  REQUIRE(second.ok());
  CHECK(session->Publish({.tokens = tokens}, {{refs[2]}}, /*skip=*/2)->count == 1);
  CHECK(session->Peek({.tokens = tokens})->blocks == refs);
}

TEST_CASE("Lookup leases what is found; each lease is given back once") {
  Fixture fixture;
  const std::vector<BlockRef> known = PublishBefore(fixture, Tokens(2));
  const auto session = fixture.Open();
  const std::vector<uint32_t> tokens = Tokens(3);
  auto found = session->Lookup({.tokens = tokens});
  REQUIRE(found.ok());
  CHECK(Refs(found->blocks) == known);
  CHECK(found->matched_tokens == 2 * kBlockSize);
  for (const BlockRef& ref : known) CHECK(fixture.daemon.ReferenceCount(ref.block) == 1);

  found->blocks.clear();
  CHECK(session->Flush().ok());
  for (const BlockRef& ref : known) CHECK(fixture.daemon.ReferenceCount(ref.block) == 0);
  CHECK(fixture.daemon.FindableCount() == 2);
  CHECK(session->alive());
}

TEST_CASE("A prefix that is not found is no error, and leases nothing") {
  Fixture fixture;
  const auto session = fixture.Open();
  const std::vector<uint32_t> tokens = Tokens(2);
  const auto found = session->Lookup({.tokens = tokens, .parent_key = "unknown"});
  REQUIRE(found.ok());
  CHECK(found->blocks.empty());
  CHECK(found->matched_tokens == 0);
  CHECK(found->last_key == "unknown");
}

TEST_CASE("Peek holds nothing, and needs no key") {
  Fixture fixture;
  const std::vector<BlockRef> known = PublishBefore(fixture, Tokens(2));
  const auto session = fixture.Open();
  const std::vector<uint32_t> tokens = Tokens(2);
  const auto hint = session->Peek({.tokens = tokens});
  REQUIRE(hint.ok());
  CHECK(hint->blocks == known);
  CHECK(hint->matched_tokens == 2 * kBlockSize);
  CHECK(fixture.daemon.ReferenceCount(known[0].block) == 0);
  CHECK(fixture.daemon.Keys("Lookup") == std::vector<uint64_t>{0});
}

TEST_CASE("Acquire leases the prefix and as many new blocks as the sequence lacks") {
  Fixture fixture;
  const std::vector<BlockRef> known = PublishBefore(fixture, Tokens(2));
  const auto session = fixture.Open();
  const std::vector<uint32_t> tokens = Tokens(3);
  auto acquired = session->Acquire({.tokens = tokens}, 5);
  REQUIRE(acquired.ok());
  CHECK(acquired->matched_blocks == 2);
  REQUIRE(acquired->blocks.size() == 5);
  CHECK(acquired->blocks[1].ref() == known[1]);
  CHECK(fixture.daemon.FreeCount() == 3);
  const auto chunk = session->Acquire({.tokens = tokens}, 5, {.max_new_blocks = 1});
  REQUIRE(chunk.ok());
  CHECK(chunk->blocks.size() == 3);
  CHECK(fixture.daemon.ReferenceCount(known[0].block) == 2);

  acquired->blocks.clear();
  CHECK(session->Flush().ok());
  CHECK(fixture.daemon.ReferenceCount(known[0].block) == 1);
  CHECK(fixture.daemon.FreeCount() == 5);
}

TEST_CASE("Acquire comes after what ended leases give back") {
  Fixture fixture;
  const auto session = fixture.Open();
  auto leases = session->Alloc(8);
  REQUIRE(leases.ok());
  leases->clear();
  CHECK(session->Acquire({}, 8).ok());
}

TEST_CASE("An Acquire for which there is no room leases nothing, and says how much there is") {
  Fixture fixture;
  const std::vector<BlockRef> known = PublishBefore(fixture, Tokens(2));
  const auto session = fixture.Open();
  const std::vector<uint32_t> tokens = Tokens(2);
  const absl::Status full = session->Acquire({.tokens = tokens}, 9).status();
  CHECK(absl::IsResourceExhausted(full));
  CHECK(GetErrorDetail(full) == ErrorDetail{.reason = Reason::kPoolFull, .available = 6});
  CHECK(fixture.daemon.ReferenceCount(known[0].block) == 0);
}

TEST_CASE("A Publish whose answers are lost is repeated under its key, with one effect") {
  Fixture fixture;
  const std::vector<BlockRef> known = PublishBefore(fixture, Tokens(1));
  const auto session = fixture.Open();
  const auto leases = session->Alloc(2).value();
  const std::vector<uint32_t> tokens = Tokens(2);
  fixture.daemon.LoseAnswers("Publish", 2);
  const auto published = session->Publish({.tokens = tokens}, Refs(leases));
  REQUIRE(published.ok());
  // The first answer's: to publish them again would publish none.
  CHECK(published->count == 1);
  CHECK(published->duplicates.size() == 1);
  CHECK(fixture.daemon.FindableCount() == 2);
  const std::vector<uint64_t> keys = fixture.daemon.Keys("Publish");
  REQUIRE(keys.size() == 3);
  CHECK(keys[1] == keys[2]);
  CHECK(keys[1] != keys[0]);
  CHECK(keys[1] != 0);
}

TEST_CASE("A Lookup or Acquire whose answers are lost holds the prefix once") {
  Fixture fixture;
  const std::vector<BlockRef> known = PublishBefore(fixture, Tokens(2));
  const auto session = fixture.Open();
  const std::vector<uint32_t> tokens = Tokens(2);
  std::vector<BlockLease> leases;
  const std::string method = GENERATE("Lookup", "Acquire");
  CAPTURE(method);
  fixture.daemon.LoseAnswers(method, 2);
  if (method == "Lookup") {
    leases = std::move(session->Lookup({.tokens = tokens}).value().blocks);
  } else {
    leases = std::move(session->Acquire({.tokens = tokens}, 2).value().blocks);
  }
  CHECK(Refs(leases) == known);
  const std::vector<uint64_t> keys = fixture.daemon.Keys(method);
  REQUIRE(keys.size() == 2);
  CHECK(keys[0] == keys[1]);
  CHECK(keys[0] != 0);
  for (const BlockRef& ref : known) CHECK(fixture.daemon.ReferenceCount(ref.block) == 1);

  leases.clear();
  CHECK(session->Flush().ok());
  for (const BlockRef& ref : known) CHECK(fixture.daemon.ReferenceCount(ref.block) == 0);
}

TEST_CASE("Evict makes blocks unfindable, in a call that may be repeated") {
  Fixture fixture;
  const std::vector<BlockRef> known = PublishBefore(fixture, Tokens(2));
  const auto session = fixture.Open();
  const std::vector<uint32_t> tokens = Tokens(1);
  const auto held = session->Lookup({.tokens = tokens});
  const auto evicted = session->Evict(known);
  REQUIRE(evicted.ok());
  CHECK(evicted->blocks == std::vector<BlockId>{known[1].block, known[0].block});
  CHECK(evicted->freed == 1);
  CHECK(fixture.daemon.FindableCount() == 0);
  CHECK(fixture.daemon.ReferenceCount(known[0].block) == 1);

  fixture.daemon.LoseAnswers("Evict", 1);
  CHECK(session->Evict(known)->blocks.empty());
  CHECK(fixture.daemon.CallCount("Evict") == 3);
}

TEST_CASE("An EvictNext whose answer is lost is not repeated, and evicts no more than was asked") {
  Fixture fixture;
  PublishBefore(fixture, Tokens(4));
  const auto session = fixture.Open();
  fixture.daemon.LoseAnswers("Evict", 1);
  CHECK(absl::IsUnavailable(session->EvictNext(1).status()));
  CHECK(fixture.daemon.CallCount("Evict") == 1);
  CHECK(fixture.daemon.FindableCount() == 3);
  CHECK(session->EvictNext(9)->freed == 3);
}

TEST_CASE("What the daemon refuses is told with its code and detail, and is not repeated") {
  Fixture fixture;
  const auto session = fixture.Open();
  const std::vector<std::pair<absl::StatusCode, Reason>> refusals = {
      {absl::StatusCode::kFailedPrecondition, Reason::kNotHeld},
      {absl::StatusCode::kFailedPrecondition, Reason::kSealed},
      {absl::StatusCode::kFailedPrecondition, Reason::kClaimed},
      {absl::StatusCode::kFailedPrecondition, Reason::kParentUnknown},
      {absl::StatusCode::kFailedPrecondition, Reason::kNotLeaf},
      {absl::StatusCode::kFailedPrecondition, Reason::kJoined},
      {absl::StatusCode::kResourceExhausted, Reason::kLimit},
      {absl::StatusCode::kResourceExhausted, Reason::kQuota},
      {absl::StatusCode::kAborted, Reason::kBusy}};
  for (const NamedCall& call : AllCalls()) {
    for (const auto& [code, reason] : refusals) {
      CAPTURE(call.method, reason);
      const size_t before = fixture.daemon.CallCount(call.method);
      const absl::Status refusal =
          MakeError(code, {.reason = reason, .index = 1, .block_id = 2, .available = 3}, "refused");
      fixture.daemon.RefuseNext(call.method, refusal);
      CHECK(call.make(*session) == refusal);
      CHECK(fixture.daemon.CallCount(call.method) == before + 1);
    }
  }
  CHECK(session->alive());
}

TEST_CASE(
    "A call of the prefix cache learns that the session has ended, and the next is not made") {
  for (const NamedCall& call : AllCalls()) {
    CAPTURE(call.method);
    Fixture fixture;
    const auto session = fixture.Open();
    const absl::Status unknown = MakeError(absl::StatusCode::kNotFound,
                                           {.reason = Reason::kSessionUnknown}, "no such session");
    fixture.daemon.RefuseNext(call.method, unknown);
    CHECK(GetErrorDetail(call.make(*session)).reason == Reason::kSessionUnknown);
    CHECK_FALSE(session->alive());
    CHECK(GetErrorDetail(call.make(*session)).reason == Reason::kSessionUnknown);
    CHECK(fixture.daemon.CallCount(call.method) == 1);
  }
}

TEST_CASE("Done gives leases back with the hint, once, and empties them") {
  Fixture fixture;
  PublishBefore(fixture, Tokens(2));
  const auto session = fixture.Open();
  const std::vector<uint32_t> tokens = Tokens(2);
  auto acquired = session->Acquire({.tokens = tokens}, 3);
  REQUIRE(acquired.ok());
  const std::vector<BlockRef> refs = Refs(acquired->blocks);
  const size_t calls_before = fixture.daemon.CallCount("DecRef");
  fixture.daemon.LoseAnswers("DecRef", 1);
  CHECK(session->Done(acquired->blocks).ok());
  for (const BlockLease& lease : acquired->blocks) CHECK(lease.is_empty());
  for (const BlockRef& ref : refs) CHECK(fixture.daemon.ReferenceCount(ref.block) == 0);
  CHECK(fixture.daemon.DoneCount() == 3);
  // Emptied leases give nothing back, whether they are done with again or end.
  CHECK(session->Done(acquired->blocks).ok());
  acquired->blocks.clear();
  CHECK(session->Flush().ok());
  CHECK(fixture.daemon.CallCount("DecRef") == calls_before + 2);
}

TEST_CASE("Leases that merely end carry no such hint") {
  Fixture fixture;
  const auto session = fixture.Open();
  session->Alloc(2)->clear();
  CHECK(session->Flush().ok());
  CHECK(fixture.daemon.FreeCount() == 8);
  CHECK(fixture.daemon.DoneCount() == 0);
}

TEST_CASE("Done refuses what has forks, what is another session's and what the daemon refuses") {
  Fixture fixture;
  const auto session = fixture.Open();
  auto leases = session->Alloc(2).value();
  SECTION("forks") {
    const BlockLease fork = leases[1].Fork();
    CHECK(absl::IsFailedPrecondition(session->Done(leases)));
  }
  SECTION("another session's") {
    const auto other = fixture.Open();
    CHECK(absl::IsInvalidArgument(other->Done(leases)));
  }
  SECTION("refused") {
    const absl::Status refusal =
        MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kNotHeld}, "not held");
    fixture.daemon.RefuseNext("DecRef", refusal);
    CHECK(session->Done(leases) == refusal);
  }
  for (const BlockLease& lease : leases) {
    REQUIRE_FALSE(lease.is_empty());
    CHECK(fixture.daemon.ReferenceCount(lease.id()) == 1);
  }
}

}  // namespace
}  // namespace kvpool::client
