// What a session does about answers that do not arrive.
#include <algorithm>
#include <set>
#include <vector>

#include "client/session.h"
#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/unit/client/fixture.h"

namespace kvpool::client {
namespace {

TEST_CASE("An Alloc whose answers are lost is repeated under its key, with one effect") {
  Fixture fixture;
  const auto session = fixture.Open();
  fixture.daemon.LoseAnswers("Alloc", 2);
  const auto leases = session->Alloc(3);
  REQUIRE(leases.ok());
  CHECK(leases->size() == 3);
  CHECK(fixture.daemon.FreeCount() == 5);
  const std::vector<uint64_t> keys = fixture.daemon.Keys("Alloc");
  // The answer of a repeat comes from memory: nothing is lost any more.
  REQUIRE(keys.size() == 2);
  CHECK(keys[0] == keys[1]);
  CHECK(keys[0] != 0);
}

TEST_CASE("An IncRef whose answer is lost takes one reference") {
  Fixture fixture;
  const auto session = fixture.Open();
  const auto leases = session->Alloc(1);
  REQUIRE(leases.ok());
  fixture.daemon.LoseAnswers("IncRef", 1);
  const auto more = session->IncRef(Refs(*leases));
  REQUIRE(more.ok());
  CHECK(fixture.daemon.ReferenceCount((*leases)[0].id()) == 2);
  const std::vector<uint64_t> keys = fixture.daemon.Keys("IncRef");
  REQUIRE(keys.size() == 2);
  CHECK(keys[0] == keys[1]);
}

TEST_CASE("A DecRef whose answer is lost drops one reference, late or not") {
  Fixture fixture;
  const auto session = fixture.Open();
  auto leases = session->Alloc(1);
  REQUIRE(leases.ok());
  BlockLease second = std::move(session->IncRef(Refs(*leases)).value().front());
  const BlockId block = second.id();

  fixture.daemon.LoseAnswers("DecRef", 1);
  CHECK(second.Release().ok());
  CHECK(fixture.daemon.ReferenceCount(block) == 1);
  fixture.daemon.LoseAnswers("DecRef", 1);
  leases->clear();
  CHECK(session->Flush().ok());
  CHECK(fixture.daemon.ReferenceCount(block) == 0);

  const std::vector<uint64_t> keys = fixture.daemon.Keys("DecRef");
  REQUIRE(keys.size() == 4);
  CHECK(keys[0] == keys[1]);
  CHECK(keys[2] == keys[3]);
  CHECK(keys[0] != keys[2]);
}

TEST_CASE("Every keyed call has a key of its own, in every session another") {
  Fixture fixture;
  std::set<uint64_t> seen;
  for (int i = 0; i < 3; ++i) {
    const auto session = fixture.Open();
    for (int call = 0; call < 5; ++call) session->Alloc(1).value().front().Release().IgnoreError();
  }
  for (const char* method : {"Alloc", "DecRef"}) {
    for (const uint64_t key : fixture.daemon.Keys(method)) seen.insert(key);
  }
  CHECK(seen.size() == 30);
  CHECK_FALSE(seen.contains(0));
}

TEST_CASE("Opening and closing are repeated too") {
  Fixture fixture;
  fixture.daemon.LoseAnswers("OpenSession", 1);
  const auto session = fixture.Open();
  CHECK(fixture.daemon.CallCount("OpenSession") == 2);
  // The repeat finds the stream ended and the session unknown, which is as good.
  fixture.daemon.LoseAnswers("CloseSession", 1);
  const absl::Status closed = session->Close();
  CHECK((closed.ok() || absl::IsUnavailable(closed)));
  CHECK_FALSE(session->alive());
}

TEST_CASE("Calls that the API lets be repeated without a key are") {
  Fixture fixture;
  const auto session = fixture.Open();
  const auto leases = session->Alloc(2);
  REQUIRE(leases.ok());
  const std::vector<BlockRef> refs = Refs(*leases);
  for (const char* method : {"FillBlocks", "CopyBlocks", "WriteBlocks"}) {
    fixture.daemon.LoseAnswers(method, 1);
  }
  CHECK(session->FillBlocks(refs, Fill::kPoison).ok());
  CHECK(session->CopyBlocks({&refs[0], 1}, {&refs[1], 1}).ok());
  const std::vector<std::byte> data(4, std::byte{1});
  const std::vector<BlockPiece> pieces = {{.block = refs[0].block, .data = data}};
  CHECK(session->WriteBlocks(pieces).ok());
  for (const char* method : {"FillBlocks", "CopyBlocks", "WriteBlocks"}) {
    CHECK(fixture.daemon.CallCount(method) == 2);
  }
}

TEST_CASE("A reading that broke off after its first piece is not repeated") {
  Fixture fixture;
  const auto session = fixture.Open();
  const auto leases = session->Alloc(1);
  REQUIRE(leases.ok());
  fixture.daemon.LoseAnswers("ReadBlocks", 1);
  int pieces = 0;
  CHECK(absl::IsUnavailable(session->ReadBlocks(Refs(*leases), {}, 0, [&](const BlockPiece&) {
    ++pieces;
    return absl::OkStatus();
  })));
  CHECK(pieces == 6);
  CHECK(fixture.daemon.CallCount("ReadBlocks") == 1);
}

TEST_CASE("A call that a draining daemon refuses is made once") {
  Fixture fixture;
  const auto session = fixture.Open();
  fixture.daemon.RefuseNext("Alloc", MakeError(absl::StatusCode::kUnavailable,
                                               {.reason = Reason::kDraining}, "draining"));
  CHECK(GetErrorDetail(session->Alloc(1).status()).reason == Reason::kDraining);
  CHECK(fixture.daemon.CallCount("Alloc") == 1);
}

}  // namespace
}  // namespace kvpool::client
