#include "tests/unit/pool/pool_fixture.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "tests/support/catch.h"

namespace kvpool::test {

void RecordingObserver::OnSessionEnded(const SessionId& session, SessionEnd) {
  Add("ended", session);
}

void RecordingObserver::OnSessionForgotten(const SessionId& session) { Add("forgotten", session); }

void RecordingObserver::OnMemberGone(const SessionId& session) { Add("member gone", session); }

std::vector<std::string> RecordingObserver::Take() {
  const MutexLock lock(mutex_);
  return std::exchange(told_, {});
}

void RecordingObserver::Add(absl::string_view what, const SessionId& session) {
  const MutexLock lock(mutex_);
  told_.push_back(absl::StrCat(what, " ", session.ToString().substr(30)));
}

TestSession::TestSession(uint8_t number, std::string of) : tenant(std::move(of)) {
  id.bytes[15] = number;
}

PoolSpec SmallSpec(uint32_t num_blocks) {
  PoolSpec spec;
  spec.name = "small";
  spec.num_layers = 2;
  spec.num_kv_heads = 1;
  spec.head_dim = 16;
  spec.dtype = "bf16";
  spec.num_blocks = num_blocks;
  return spec;
}

PoolSpec BigSpec(uint32_t num_blocks) {
  PoolSpec spec;
  spec.name = "big";
  spec.num_layers = 1;
  spec.dtype = "raw";
  spec.raw_token_bytes = 128 << 10;  // Times 16 tokens is 2 MiB a side.
  spec.num_blocks = num_blocks;
  return spec;
}

std::shared_ptr<Pool> MakePool(const PoolSpec& spec, Device& device, Clock clock,
                               PoolObserver& observer) {
  const absl::StatusOr<PoolLayout> layout = PlanPool(spec);
  INFO(layout.status().ToString());
  REQUIRE(layout.ok());
  const std::vector<Device*> devices(layout->num_shards(), &device);
  PoolOptions options;
  options.layout = *layout;
  auto made = Pool::Create(options, devices, std::move(clock), observer);
  INFO(made.status().ToString());
  REQUIRE(made.ok());
  return *std::move(made);
}

PoolFixture::PoolFixture(const PoolSpec& spec)
    : pool(MakePool(
          spec, device, [this] { return TimePoint(Duration(time.load())); }, observer)) {}

void PoolFixture::Open(const TestSession& session, ProcessId process, Duration ttl) {
  OpenSessionCall call;
  call.id = session.id;
  call.tenant = session.tenant;
  call.client_name = "test";
  call.process = process;
  call.ttl = ttl;
  const absl::StatusOr<Duration> opened = pool->OpenSession(call);
  INFO(opened.status().ToString());
  REQUIRE(opened.ok());
}

std::vector<BlockRef> PoolFixture::Alloc(const TestSession& session, uint32_t count, Fill fill) {
  Answer<AllocResult> answer;
  pool->Alloc(MakeAllocCall(session, count, fill), answer.callback());
  REQUIRE(answer.count() == 1);
  const AllocResult result = answer.Take();
  INFO(result.status().ToString());
  REQUIRE(result.ok());
  return result->blocks;
}

void PoolFixture::DecRef(const TestSession& session, std::span<const BlockRef> blocks) {
  const auto answer = pool->DecRef(
      {.caller = session.caller(), .blocks = blocks, .done = false, .idempotency_key = 0});
  INFO(answer.status().ToString());
  REQUIRE(answer.ok());
}

Answer<absl::Status> PoolFixture::StartFill(const TestSession& session,
                                            std::vector<BlockRef> blocks, Fill fill) {
  Answer<absl::Status> answer;
  pool->FillBlocks(session.caller(), std::move(blocks), fill, answer.callback());
  return answer;
}

Answer<absl::Status> PoolFixture::StartWrite(const TestSession& session, BlockPiece piece) {
  Answer<absl::Status> answer;
  pool->Write(session.caller(), std::move(piece), answer.callback());
  return answer;
}

absl::Status PoolFixture::Write(const TestSession& session, BlockPiece piece) {
  Answer<absl::Status> answer = StartWrite(session, std::move(piece));
  REQUIRE(answer.count() == 1);
  return answer.Take();
}

std::span<std::byte> PoolFixture::Bytes(BlockId block, uint32_t layer, Side side,
                                        uint32_t shard) const {
  const LayerLayout& layout = pool->layout().layers[layer];
  const SideLayout& place = side == Side::kK ? layout.k : *layout.v;
  return FakeDevice::Bytes(*pool->memory().regions()[shard])
      .subspan(place.offset_bytes + ToIndex(block) * place.stride_bytes, place.block_bytes);
}

bool PoolFixture::IsFilled(BlockId block, uint8_t value) const {
  const auto is_value = [value](std::byte byte) { return byte == std::byte{value}; };
  for (uint32_t shard = 0; shard < pool->layout().num_shards(); ++shard) {
    for (uint32_t layer = 0; layer < pool->layout().layers.size(); ++layer) {
      if (!std::ranges::all_of(Bytes(block, layer, Side::kK, shard), is_value)) return false;
      if (!std::ranges::all_of(Bytes(block, layer, Side::kV, shard), is_value)) return false;
    }
  }
  return true;
}

std::string MakePattern(const PieceRange& range, uint32_t seed) {
  std::string data(range.size_bytes, '\0');
  // An odd step from a mixed start: neither shifted nor swapped bytes look right.
  uint32_t value = (seed * 2'654'435'761U) ^ (range.shard << 24) ^ (ToIndex(range.block) << 16) ^
                   (range.layer << 8) ^ static_cast<uint32_t>(range.side);
  for (uint64_t i = 0; i < data.size(); ++i) {
    const uint64_t place = range.offset_bytes + i;
    data[i] = static_cast<char>((value + place * 7 + (place >> 8) * 13) & 0xFF);
  }
  return data;
}

BlockPiece MakePiece(PieceRange range, uint32_t seed) {
  return {.range = range, .data = MakePattern(range, seed)};
}

absl::StatusOr<std::vector<BlockPiece>> ReadAll(Pool::Reader& reader) {
  std::vector<BlockPiece> pieces;
  for (;;) {
    Answer<PieceResult> answer;
    reader.Next(answer.callback());
    PieceResult piece = answer.Take();
    if (!piece.ok()) return piece.status();
    if (!piece->has_value()) return pieces;
    pieces.push_back(**std::move(piece));
  }
}

AllocCall MakeAllocCall(const TestSession& session, uint32_t count, Fill fill) {
  AllocCall call;
  call.caller = session.caller();
  call.count = count;
  call.fill = fill;
  return call;
}

}  // namespace kvpool::test
