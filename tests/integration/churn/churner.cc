#include "tests/integration/churn/churner.h"

#include <cstddef>
#include <cstring>
#include <iostream>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/error.h"
#include "core/status_macros.h"
#include "tests/integration/support/block_bytes.h"

namespace kvpool::test {
namespace {

constexpr uint32_t kMaxSteps = 150;
constexpr uint32_t kMaxBlocksAtOnce = 6;
constexpr size_t kMaxHeld = 24;

// Each 8 bytes of a side: the stamp, and where they lie.
uint64_t WordOf(uint64_t stamp, uint32_t layer, bool is_k, size_t index) {
  return stamp ^ ((uint64_t{layer} * 2 + (is_k ? 1 : 0)) << 56) ^ (uint64_t{index} << 40);
}

// The bytes of a side that has the stamp.
std::vector<std::byte> StampedSide(const client::Mapping& mapping, uint32_t layer, bool is_k,
                                   uint64_t stamp) {
  std::vector<std::byte> bytes(SideSize(mapping, layer, is_k));
  for (size_t i = 0; i < bytes.size() / sizeof(uint64_t); ++i) {
    const uint64_t word = WordOf(stamp, layer, is_k, i);
    std::memcpy(bytes.data() + i * sizeof(word), &word, sizeof(word));
  }
  return bytes;
}

absl::Status Write(client::Mapping& mapping, BlockId block, uint64_t stamp) {
  return EachSide(mapping, [&](uint32_t layer, bool is_k) {
    return WriteSide(mapping, layer, is_k, block, StampedSide(mapping, layer, is_k, stamp));
  });
}

// DATA_LOSS unless every side of the block holds what `expected` says of it.
template <typename Expected>
absl::Status CheckHolds(const client::Mapping& mapping, BlockId block, Expected expected) {
  return EachSide(mapping, [&](uint32_t layer, bool is_k) -> absl::Status {
    KVPOOL_ASSIGN_OR_RETURN(const std::vector<std::byte> side,
                            ReadSide(mapping, layer, is_k, block));
    if (side == expected(layer, is_k)) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("layer ", layer, is_k ? "'s K" : "'s V"));
  });
}

// What a worker among many meets as a matter of course.
bool IsExpected(const absl::Status& status) {
  const Reason reason = GetErrorDetail(status).reason;
  return reason == Reason::kPoolFull || reason == Reason::kStaleBlock || reason == Reason::kNotLive;
}

absl::Status UnlessExpected(const absl::Status& status) {
  return IsExpected(status) ? absl::OkStatus() : status;
}

}  // namespace

Churner::Churner(Options options)
    : options_(std::move(options)),
      random_(options_.seed),
      mailbox_(options_.directory, options_.number),
      next_stamp_(options_.seed << 16) {}

Churner::End Churner::Live() {
  absl::StatusOr<client::Client> client = client::Client::Create({.socket = options_.socket});
  absl::Status status = client.status();
  for (uint32_t steps = random_.Below(kMaxSteps); status.ok() && steps > 0; --steps) {
    if (session_ == nullptr || random_.OneIn(40)) status = OpenSession(*client);
    if (status.ok()) status = Step();
  }
  if (!status.ok()) {
    std::cerr << "churner " << options_.number << ", seed " << options_.seed << ": " << status
              << std::endl;
    return absl::IsDataLoss(status) ? End::kMismatch : End::kError;
  }
  if (random_.OneIn(3)) return End::kLeft;
  held_.clear();
  mapping_.reset();
  session_.reset();
  return End::kClosed;
}

absl::Status Churner::OpenSession(client::Client& client) {
  while (!held_.empty()) KVPOOL_RETURN_IF_ERROR(Release());
  mapping_.reset();
  if (session_ != nullptr) KVPOOL_RETURN_IF_ERROR(session_->Close());
  KVPOOL_ASSIGN_OR_RETURN(
      session_, client.OpenSession({.pool = "p", .client_name = absl::StrCat(options_.number)}));
  KVPOOL_ASSIGN_OR_RETURN(mapping_, session_->Map());
  return absl::OkStatus();
}

absl::Status Churner::Step() {
  for (const Held& held : held_) KVPOOL_RETURN_IF_ERROR(Verify(held.lease.id(), held.stamp));
  if (held_.size() > kMaxHeld || (!held_.empty() && random_.OneIn(2))) {
    KVPOOL_RETURN_IF_ERROR(Release());
  }
  KVPOOL_RETURN_IF_ERROR(Take());
  return Stamp();
}

absl::Status Churner::Stamp() {
  client::AllocOptions options{.fill = random_.OneIn(2) ? Fill::kZero : Fill::kUnspecified};
  absl::StatusOr<std::vector<client::BlockLease>> leases =
      session_->Alloc(1 + random_.Below(kMaxBlocksAtOnce), options);
  if (!leases.ok()) return UnlessExpected(leases.status());
  for (client::BlockLease& lease : *leases) {
    const BlockRef block = lease.ref();
    if (options.fill == Fill::kZero) KVPOOL_RETURN_IF_ERROR(VerifyZero(block.block));
    const uint64_t stamp = next_stamp_++;
    KVPOOL_RETURN_IF_ERROR(Write(*mapping_, block.block, stamp));
    held_.push_back({.lease = std::move(lease), .stamp = stamp});
    ++counts_.stamped;
    // It is written: from here on it is only read, whoever holds it.
    if (random_.OneIn(3)) {
      mailbox_.Send(random_.Below(options_.worker_count), {.block = block, .stamp = stamp});
    }
  }
  return absl::OkStatus();
}

absl::Status Churner::Take() {
  const std::optional<Offer> offer = mailbox_.Receive();
  if (!offer.has_value()) return absl::OkStatus();
  absl::StatusOr<std::vector<client::BlockLease>> leases = session_->IncRef({&offer->block, 1});
  if (!leases.ok()) return UnlessExpected(leases.status());
  KVPOOL_RETURN_IF_ERROR(Verify(offer->block.block, offer->stamp));
  held_.push_back({.lease = std::move(leases->front()), .stamp = offer->stamp});
  ++counts_.taken;
  return absl::OkStatus();
}

absl::Status Churner::Release() {
  const auto it = held_.begin() + random_.Below(static_cast<uint32_t>(held_.size()));
  KVPOOL_RETURN_IF_ERROR(Verify(it->lease.id(), it->stamp));
  KVPOOL_RETURN_IF_ERROR(it->lease.Release());
  held_.erase(it);
  return absl::OkStatus();
}

absl::Status Churner::Verify(BlockId block, uint64_t stamp) const {
  const absl::Status status = CheckHolds(*mapping_, block, [&](uint32_t layer, bool is_k) {
    return StampedSide(*mapping_, layer, is_k, stamp);
  });
  if (!absl::IsDataLoss(status)) return status;
  return absl::DataLossError(absl::StrCat(status.message(), " of block ", ToIndex(block),
                                          " does not hold the stamp ", stamp));
}

absl::Status Churner::VerifyZero(BlockId block) const {
  const absl::Status status = CheckHolds(*mapping_, block, [&](uint32_t layer, bool is_k) {
    return std::vector<std::byte>(SideSize(*mapping_, layer, is_k));
  });
  if (!absl::IsDataLoss(status)) return status;
  return absl::DataLossError(
      absl::StrCat(status.message(), " of block ", ToIndex(block), " is not zero"));
}

}  // namespace kvpool::test
