#include "client/releaser.h"

#include <algorithm>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <vector>

#include "core/error.h"
#include "tests/support/catch.h"

namespace kvpool::client {
namespace {

BlockRef Ref(uint32_t block) {
  return {.block = BlockId{block}, .generation = Generation{block + 100}};
}

absl::Status NotHeld(uint32_t index) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.reason = Reason::kNotHeld, .index = index}, "not held");
}

// What a releaser sent and told. Looked at after a Flush, which orders it.
struct Record {
  std::vector<std::vector<BlockRef>> batches;
  std::vector<BlockRef> failed;

  Releaser::Send Sender() {
    return [this](std::span<const BlockRef> refs) {
      batches.emplace_back(refs.begin(), refs.end());
      return absl::OkStatus();
    };
  }
  Releaser::OnFailure Teller() {
    return [this](std::span<const BlockRef> refs, const absl::Status& /*status*/) {
      failed.insert(failed.end(), refs.begin(), refs.end());
    };
  }
};

TEST_CASE("References are given back in order, in batches no larger than may be") {
  Record record;
  std::latch first_sent(1);
  std::latch all_added(1);
  Releaser releaser(
      /*max_batch=*/4,
      [&](std::span<const BlockRef> refs) {
        if (record.batches.empty()) {
          first_sent.count_down();
          all_added.wait();
        }
        return record.Sender()(refs);
      },
      record.Teller(), ProcessRuntime());
  releaser.Add(Ref(0));
  first_sent.wait();
  for (uint32_t block = 1; block < 10; ++block) releaser.Add(Ref(block));
  all_added.count_down();

  CHECK(releaser.Flush().ok());
  REQUIRE(record.batches.size() == 4);  // 1, then 4 + 4 + 1 that came meanwhile.
  CHECK(record.batches[1].size() == 4);
  std::vector<BlockRef> sent;
  for (const auto& batch : record.batches) sent.insert(sent.end(), batch.begin(), batch.end());
  REQUIRE(sent.size() == 10);
  for (uint32_t block = 0; block < 10; ++block) CHECK(sent[block] == Ref(block));
}

TEST_CASE("One wrong entry keeps no other reference from being given back") {
  Record record;
  std::latch all_added(1);
  Releaser releaser(
      /*max_batch=*/100,
      [&](std::span<const BlockRef> refs) {
        all_added.wait();
        const auto wrong = std::ranges::find(refs, Ref(2));
        if (wrong != refs.end()) {
          return NotHeld(static_cast<uint32_t>(wrong - refs.begin()));
        }
        return record.Sender()(refs);
      },
      record.Teller(), ProcessRuntime());
  for (uint32_t block = 0; block < 5; ++block) releaser.Add(Ref(block));
  all_added.count_down();

  CHECK(GetErrorDetail(releaser.Flush()).reason == Reason::kNotHeld);
  CHECK(record.failed == std::vector<BlockRef>{Ref(2)});
  size_t sent = 0;
  for (const auto& batch : record.batches) sent += batch.size();
  CHECK(sent == 4);
  // Told once.
  CHECK(releaser.Flush().ok());
}

TEST_CASE("A batch that gets no answer is told of whole") {
  Record record;
  Releaser releaser(
      /*max_batch=*/100,
      [](std::span<const BlockRef> /*refs*/) { return absl::UnavailableError("gone"); },
      record.Teller(), ProcessRuntime());
  releaser.Add(Ref(1));
  CHECK(absl::IsUnavailable(releaser.Flush()));
  CHECK(record.failed == std::vector<BlockRef>{Ref(1)});
}

TEST_CASE("A refusal that names an entry beyond the batch fails the batch") {
  Record record;
  Releaser releaser(
      /*max_batch=*/100, [](std::span<const BlockRef> /*refs*/) { return NotHeld(7); },
      record.Teller(), ProcessRuntime());
  releaser.Add(Ref(1));
  CHECK_FALSE(releaser.Flush().ok());
  CHECK(record.failed == std::vector<BlockRef>{Ref(1)});
}

TEST_CASE("A stopped releaser sends nothing, tells nothing, and keeps nobody waiting") {
  Record record;
  std::latch sending(1);
  std::latch stopped(1);
  Releaser releaser(
      /*max_batch=*/1,
      [&](std::span<const BlockRef> refs) {
        record.batches.emplace_back(refs.begin(), refs.end());
        sending.count_down();
        stopped.wait();
        return absl::UnavailableError("gone");
      },
      record.Teller(), ProcessRuntime());
  releaser.Add(Ref(1));
  releaser.Add(Ref(2));
  sending.wait();
  releaser.Stop();
  releaser.Wait();  // Although the first has no answer yet.
  releaser.Add(Ref(3));
  stopped.count_down();
  releaser.Join();
  CHECK(record.batches.size() == 1);
  CHECK(record.failed.empty());
}

}  // namespace
}  // namespace kvpool::client
