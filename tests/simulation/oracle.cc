#include "tests/simulation/oracle.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "tests/support/fake_device.h"

namespace kvpool::simulation {
namespace {

BlockRef RefOf(const v1::Blocks& blocks, int index) {
  return {.block = BlockId{blocks.block_ids(index)},
          .generation = Generation{blocks.generations(index)}};
}

std::pair<uint32_t, uint64_t> KeyOf(const BlockRef& ref) {
  return {ToIndex(ref.block), static_cast<uint64_t>(ref.generation)};
}

const char* StateText(BlockState state) {
  switch (state) {
    case BlockState::kFree:
      return "free";
    case BlockState::kHeld:
      return "held";
    case BlockState::kCached:
      return "cached";
    case BlockState::kQuarantined:
      return "quarantined";
  }
  return "?";
}

}  // namespace

std::string Stamp::ToString() const { return absl::StrCat(prefix, "/", write); }

Oracle::Oracle(Scheduler& scheduler, Pool& pool)
    : scheduler_(scheduler), pool_(pool), last_generations_(pool.layout().num_blocks, 0) {}

void Oracle::OnGranted(const CallName& call, const v1::Blocks& blocks, uint32_t first_new,
                       v1::Fill fill) {
  OnTaken(call.session, blocks);
  for (int i = static_cast<int>(first_new); i < blocks.block_ids_size(); ++i) {
    const BlockRef ref = RefOf(blocks, i);
    const auto [birth, is_new] =
        births_.try_emplace(KeyOf(ref), Birth{.call = call, .time = scheduler_.now()});
    if (!is_new) {
      if (birth->second.call != call) Fail(absl::StrCat(Text(ref), " was given to two calls"));
      continue;
    }
    if (fill == v1::FILL_ZERO && Read(ref.block) != Stamp{}) {
      Fail(absl::StrCat(Text(ref), " was to be zero and reads ", Read(ref.block).ToString()));
    }
    uint64_t& last = last_generations_[ToIndex(ref.block)];
    const auto generation = static_cast<uint64_t>(ref.generation);
    if (generation <= last) Fail(absl::StrCat(Text(ref), " was given after ", last));
    last = generation;
  }
}

void Oracle::OnTaken(const SessionId& session, const v1::Blocks& blocks) {
  for (int i = 0; i < blocks.block_ids_size(); ++i) {
    const BlockRef ref = RefOf(blocks, i);
    if (!Holds(session, ref)) {
      Fail(absl::StrCat("an answer names ", Text(ref), ", which its session does not hold"));
    }
  }
}

void Oracle::OnAdded(const CallName& call, const v1::Blocks& blocks) {
  if (added_.insert(call).second) OnTaken(call.session, blocks);
}

void Oracle::OnPublished(const v1::PublishRequest& request, const v1::PublishResponse& response) {
  for (int i = 0; i < request.blocks().block_ids_size(); ++i) {
    const bool is_duplicate = std::ranges::any_of(response.duplicates(), [i](const auto& other) {
      return other.index() == static_cast<uint32_t>(i);
    });
    if (is_duplicate) continue;
    const BlockRef ref = RefOf(request.blocks(), i);
    published_.try_emplace(KeyOf(ref), Read(ref.block));
  }
}

void Oracle::CheckBirths(const CallName& call, const std::vector<BlockRef>& blocks,
                         TimePoint begin) {
  for (const BlockRef& ref : blocks) {
    const auto birth = births_.find(KeyOf(ref));
    if (birth == births_.end() || birth->second.call.session != call.session ||
        birth->second.time < begin || birth->second.time > scheduler_.now()) {
      Fail(absl::StrCat(Text(ref), " was not given between its call and the answer"));
    }
  }
}

void Oracle::CheckFound(const SessionId& session, const BlockRef& block, uint32_t prefix) {
  // What is read once the session is over is void.
  if (!Holds(session, block)) return;
  const Stamp stamp = Read(block.block);
  const auto published = published_.find(KeyOf(block));
  if (published == published_.end()) {
    Fail(absl::StrCat(Text(block), " was found and never published"));
  } else if (published->second != stamp) {
    Fail(absl::StrCat(Text(block), " was published with ", published->second.ToString(),
                      " and reads ", stamp.ToString()));
  } else if (stamp.prefix != prefix) {
    Fail(absl::StrCat(Text(block), " was found by prefix ", prefix, " and is of ",
                      stamp.ToString()));
  }
}

void Oracle::CheckOwn(const SessionId& session, const BlockRef& block, Stamp last) {
  if (!Holds(session, block)) return;
  const Stamp stamp = Read(block.block);
  if (stamp != last) {
    Fail(absl::StrCat(Text(block), " reads ", stamp.ToString(), " where its owner wrote ",
                      last.ToString()));
  }
}

void Oracle::CheckReferences(const SessionId& session, std::vector<BlockRef> held) {
  if (!IsLive(session)) return;
  const absl::StatusOr<SessionInfo> info = pool_.GetSession(session, pool_.layout().num_blocks);
  if (!info.ok()) return;
  if (info->references != held.size()) {
    Fail(absl::StrCat("a session has ", info->references, " references, its worker ", held.size(),
                      " leases"));
  }
  std::ranges::sort(held, {}, &BlockRef::block);
  for (size_t i = 0; i < held.size();) {
    size_t count = 0;
    for (; i + count < held.size() && held[i + count].block == held[i].block; ++count) {
    }
    const BlockInfo block = pool_.GetBlock(held[i].block);
    for (const BlockHolder& holder : block.holders) {
      if (holder.session != session || holder.references == count) continue;
      Fail(absl::StrCat(Text(held[i]), " is held ", holder.references, " times, by ", count,
                        " leases"));
    }
    i += count;
  }
}

void Oracle::Land(const BlockRef& block, Stamp stamp) {
  const BlockInfo info = pool_.GetBlock(block.block);
  if (info.generation != block.generation) {
    Fail(absl::StrCat("a write of ", Text(block), " lands at generation ",
                      static_cast<uint64_t>(info.generation), ", which is another's"));
  } else if (info.state != BlockState::kHeld && info.state != BlockState::kQuarantined) {
    Fail(absl::StrCat("a write of ", Text(block), " lands in it while it is ",
                      StateText(info.state)));
  } else if (info.sealed) {
    Fail(absl::StrCat("a write of ", Text(block), " lands in it while it is sealed"));
  }
  Write(block.block, stamp);
}

bool Oracle::IsLive(const SessionId& session) const {
  const absl::StatusOr<SessionInfo> info = pool_.GetSession(session, 0);
  return info.ok() &&
         (info->state == SessionState::kUnattached || info->state == SessionState::kAttached);
}

bool Oracle::Holds(const SessionId& session, const BlockRef& block) const {
  const BlockInfo info = pool_.GetBlock(block.block);
  if (info.generation != block.generation) return false;
  return std::ranges::any_of(info.holders, [&](const BlockHolder& holder) {
    return holder.session == session && holder.references > 0;
  });
}

Stamp Oracle::Read(BlockId block) const {
  const SideLayout& side = pool_.layout().layers.front().k;
  const auto bytes = test::FakeDevice::Bytes(*pool_.memory().regions().front());
  Stamp stamp;
  std::memcpy(&stamp, bytes.data() + side.offset_bytes + ToIndex(block) * side.stride_bytes,
              sizeof(stamp));
  return stamp;
}

void Oracle::Write(BlockId block, Stamp stamp) {
  const SideLayout& side = pool_.layout().layers.front().k;
  const auto bytes = test::FakeDevice::Bytes(*pool_.memory().regions().front());
  std::memcpy(bytes.data() + side.offset_bytes + ToIndex(block) * side.stride_bytes, &stamp,
              sizeof(stamp));
}

std::string Oracle::Text(const BlockRef& block) const {
  return absl::StrCat("block ", ToIndex(block.block), " at generation ",
                      static_cast<uint64_t>(block.generation));
}

}  // namespace kvpool::simulation
