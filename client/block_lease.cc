#include "client/block_lease.h"

#include <utility>

#include "client/leased_reference.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvpool::client {

BlockLease::BlockLease(std::shared_ptr<LeasedReference> reference)
    : reference_(std::move(reference)) {}

BlockLease::BlockLease(BlockLease&& other) noexcept = default;

BlockLease& BlockLease::operator=(BlockLease&& other) noexcept {
  if (this != &other) {
    BlockLease ended(std::move(*this));
    reference_ = std::move(other.reference_);
  }
  return *this;
}

BlockLease::~BlockLease() {
  if (reference_ == nullptr || reference_->session().fork_guard().is_in_child()) return;
  if (reference_->EndLease()) reference_->session().releaser().Add(reference_->ref());
}

BlockLease BlockLease::Fork() const {
  if (reference_ == nullptr) return BlockLease();
  reference_->AddLease();
  return BlockLease(reference_);
}

absl::Status BlockLease::Release() {
  if (reference_ == nullptr) return absl::OkStatus();
  SessionCore& session = reference_->session();
  KVPOOL_RETURN_IF_ERROR(session.fork_guard().Check());
  const std::shared_ptr<LeasedReference> ended = std::move(reference_);
  if (!ended->EndLease() || !session.status().ok()) return absl::OkStatus();
  const absl::Status status = session.DecRef({&ended->ref(), 1});
  return session.status().ok() ? status : absl::OkStatus();
}

BlockId BlockLease::id() const { return ref().block; }

Generation BlockLease::generation() const { return ref().generation; }

BlockRef BlockLease::ref() const {
  KVPOOL_CHECK(reference_ != nullptr);
  return reference_->ref();
}

}  // namespace kvpool::client
