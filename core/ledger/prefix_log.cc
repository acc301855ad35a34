#include "core/ledger/prefix_log.h"

#include <algorithm>

#include "core/check.h"

namespace kvpool {
namespace {

// Of names, with what the table needs for them.
size_t BytesOf(const PrefixNames& names) {
  constexpr size_t kTableBytes = 32;
  return sizeof(PrefixNames) + kTableBytes + names.tenant.size() + names.model_id.size() +
         names.adapter.size();
}

}  // namespace

PrefixLog::PrefixLog(uint32_t capacity, uint64_t before_first)
    : capacity_(capacity),
      max_held_bytes_(kBytesAChange * capacity),
      last_(before_first),
      first_(before_first + 1) {
  KVPOOL_CHECK(capacity > 0);
}

void PrefixLog::Add(PrefixChange change, const PrefixNameViews& names,
                    std::span<const uint32_t> tokens) {
  if (last_ - first_ + 1 == capacity_) DropFirst();
  change.names = AddNames(names);
  if (!tokens.empty()) {
    change.tokens = std::make_unique<uint32_t[]>(tokens.size());
    std::ranges::copy(tokens, change.tokens.get());
    change.token_count = static_cast<uint32_t>(tokens.size());
    held_bytes_ += tokens.size_bytes();
  }
  ring_.Make(Place(++last_)) = std::move(change);
  while (held_bytes_ > max_held_bytes_ && first_ < last_) DropFirst();
}

void PrefixLog::DropFirst() {
  PrefixChange& change = ring_[Place(first_++)];
  held_bytes_ -= change.token_span().size_bytes();
  DropNames(change.names);
  change = PrefixChange();
}

const PrefixNames* PrefixLog::AddNames(const PrefixNameViews& names) {
  if (latest_names_ == nullptr || ViewsOf(latest_names_->first) != names) {
    auto found = names_.find(names);
    if (found == names_.end()) {
      found = names_
                  .emplace(PrefixNames{.tenant = std::string(names.tenant),
                                       .model_id = std::string(names.model_id),
                                       .adapter = std::string(names.adapter)},
                           0)
                  .first;
      held_bytes_ += BytesOf(found->first);
    }
    latest_names_ = &*found;
  }
  ++latest_names_->second;
  return &latest_names_->first;
}

void PrefixLog::DropNames(const PrefixNames* names) {
  NameTable::value_type* entry = latest_names_;
  if (entry == nullptr || &entry->first != names) entry = &*names_.find(ViewsOf(*names));
  if (--entry->second > 0) return;
  held_bytes_ -= BytesOf(*names);
  if (entry == latest_names_) latest_names_ = nullptr;
  names_.erase(names_.find(ViewsOf(*names)));
}

}  // namespace kvpool
