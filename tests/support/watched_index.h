#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

#include "core/ledger/watch_calls.h"

namespace kvpool::test {

// The index that somebody who watches prefixes rebuilds from the events.
class WatchedIndex {
 public:
  struct Entry {
    BlockRef block{};
    std::optional<PrefixKey> parent{};
    std::string tenant{};
    std::string model_id{};
    std::string adapter{};

    bool operator==(const Entry&) const = default;
  };
  using Entries = std::map<PrefixKey, Entry>;

  // Returns what is wrong with the event, if anything is.
  std::string Apply(const PrefixEvent& event) {
    if (is_lost_) return "something follows a resync";
    const bool has_number = event.sequence != 0;
    if (has_number && event.sequence <= sequence_ &&
        event.kind != PrefixEvent::Kind::kSnapshotEnd && event.kind != PrefixEvent::Kind::kResync) {
      return absl::StrCat("number ", event.sequence, " comes after ", sequence_);
    }
    if (!has_number && is_complete_ && event.kind != PrefixEvent::Kind::kSnapshotEnd) {
      return "a change has no number";
    }
    if (has_number) sequence_ = event.sequence;
    switch (event.kind) {
      case PrefixEvent::Kind::kStored:
        return Store(event);
      case PrefixEvent::Kind::kRemoved:
        return Remove(event);
      case PrefixEvent::Kind::kCleared:
        Clear(event.tenant);
        return "";
      case PrefixEvent::Kind::kSnapshotEnd:
        if (is_complete_) return "a snapshot ends twice";
        is_complete_ = true;
        return "";
      case PrefixEvent::Kind::kResync:
        is_lost_ = true;
        return "";
    }
    return "an event of no kind";
  }

  // As one that goes on with what it has, without a snapshot.
  void Resume() { is_lost_ = false; }

  const Entries& entries() const { return entries_; }
  uint64_t sequence() const { return sequence_; }
  bool is_complete() const { return is_complete_; }
  bool is_lost() const { return is_lost_; }

 private:
  std::string Store(const PrefixEvent& event) {
    if (event.keys.empty() || event.keys.size() != event.blocks.size()) {
      return "keys and blocks are not as many";
    }
    std::optional<PrefixKey> parent = event.parent;
    for (size_t i = 0; i < event.keys.size(); ++i) {
      if (parent.has_value() && !entries_.contains(*parent)) return "a parent is not known";
      const auto [entry, is_new] =
          entries_.try_emplace(event.keys[i], Entry{.block = event.blocks[i],
                                                    .parent = parent,
                                                    .tenant = event.tenant.value_or(""),
                                                    .model_id = event.model_id,
                                                    .adapter = event.adapter});
      if (is_new && parent.has_value()) ++child_counts_[*parent];
      if (!is_new && is_complete_) return "what is stored is known already";
      parent = event.keys[i];
    }
    return "";
  }

  std::string Remove(const PrefixEvent& event) {
    for (const PrefixKey& key : event.keys) {
      const auto found = entries_.find(key);
      if (found == entries_.end()) {
        if (is_complete_) return "what is removed is not known";
        continue;
      }
      if (child_counts_[key] > 0) return "what is removed has children";
      child_counts_.erase(key);
      if (found->second.parent.has_value()) --child_counts_[*found->second.parent];
      entries_.erase(found);
    }
    return "";
  }

  void Clear(const std::optional<std::string>& tenant) {
    if (!tenant.has_value()) {
      entries_.clear();
      child_counts_.clear();
      return;
    }
    std::erase_if(entries_, [&](const auto& entry) {
      if (entry.second.tenant != *tenant) return false;
      child_counts_.erase(entry.first);
      return true;
    });
  }

  Entries entries_;
  std::map<PrefixKey, uint32_t> child_counts_;
  uint64_t sequence_ = 0;
  bool is_complete_ = false;  // It has had a whole snapshot.
  bool is_lost_ = false;
};

}  // namespace kvpool::test
