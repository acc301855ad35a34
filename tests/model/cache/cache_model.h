#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/ids.h"
#include "core/ledger/options.h"

namespace kvpool::test {

// A prefix as the model knows it: text, a letter a block, after `parent` and in a space, which is
// a letter too. Its keys are "space:text".
struct ModelPrefix {
  char space = 'A';
  std::string parent;
  std::string text;

  std::string Key(size_t blocks) const {
    return std::string(1, space) + ':' + parent + text.substr(0, blocks);
  }
};

struct ModelBlock {
  std::map<size_t, uint32_t> holders{};  // References by session.
  std::string key{};                     // Sealed under; empty: not sealed.
  bool is_findable = false;
  size_t tenant = 0;
  uint64_t generation = 0;
  uint64_t use = 0;  // Rises with each use of any block.
};

struct ModelSession {
  size_t tenant = 0;
  uint32_t guarantee = 0;
};

// An Alloc, or with `prefix` an Acquire.
struct ModelDemand {
  PendingId id{};  // Where it waits.
  size_t session = 0;
  uint32_t count = 0;
  uint32_t max_new = 0;
  std::optional<ModelPrefix> prefix{};
};

// Which blocks the ledger gave, in order.
using Given = std::vector<BlockRef>;

// What the documents say that the prefix cache does, by plain maps and scans: a map of findable
// keys, blocks looked through for every choice. Sessions leave no claims here, and nothing is
// pinned. Functions that can fail return what the error is, as "CODE REASON"; empty: none.
class CacheModel {
 public:
  // Picks the block that goes next from those that may, or nothing where none of them did.
  using Chooser = std::function<std::optional<uint32_t>(const std::vector<uint32_t>&)>;

  explicit CacheModel(const LedgerOptions& options) : options_(options) {
    blocks_.resize(options.num_blocks);
  }

  // Where the ledger's policy is no plain one, what it chose is asked for.
  void SetChooser(Chooser chooser) { chooser_ = std::move(chooser); }

  std::string Open(size_t session, const ModelSession& opened);
  void Close(size_t session);

  // Whether the demand can be met; "" where it can.
  std::string Judge(const ModelDemand& demand, bool is_first) const;
  // Does what was judged possible, with the blocks that the ledger gave; what is wrong with them.
  std::string Give(const ModelDemand& demand, const Given& given, uint32_t matched);

  std::string IncRef(size_t session, const std::vector<BlockRef>& refs);
  // What became free and cached.
  struct Dropped {
    uint32_t freed = 0;
    uint32_t cached = 0;
  };
  std::string DecRef(size_t session, const std::vector<BlockRef>& refs, Dropped& dropped);

  struct Published {
    uint32_t published = 0;
    std::map<uint32_t, uint32_t> duplicates;  // Index to the known block.
  };
  std::string Publish(size_t session, const ModelPrefix& prefix, uint32_t skip,
                      const std::vector<BlockRef>& refs, Published& published);
  std::vector<uint32_t> Match(const ModelPrefix& prefix, size_t limit) const;
  std::string Acquire(size_t session, const std::vector<uint32_t>& found);
  std::string EvictListed(size_t session, const std::vector<BlockRef>& refs,
                          std::set<uint32_t>& evicted);
  // In order.
  std::vector<uint32_t> EvictCount(size_t session, uint32_t count);
  uint32_t Reset(std::optional<size_t> tenant);

  const std::vector<ModelBlock>& blocks() const { return blocks_; }
  const std::map<size_t, ModelSession>& sessions() const { return sessions_; }
  uint32_t CountFree() const;
  uint32_t CountCached() const;
  // The session's blocks.
  std::vector<uint32_t> Held(size_t session) const;
  // The calls that wait: Allocs, then Acquires.
  std::deque<ModelDemand>& grow() { return grow_; }
  std::deque<ModelDemand>& admit() { return admit_; }

 private:
  bool IsCached(const ModelBlock& block) const {
    return block.holders.empty() && block.is_findable;
  }
  bool IsFree(const ModelBlock& block) const { return block.holders.empty() && !block.is_findable; }
  bool HasChildren(const std::string& key) const;
  // The findable leaves, held or not, of a tenant or of all, the one used longest ago first.
  std::vector<uint32_t> Leaves(std::optional<size_t> tenant, bool held) const;
  // To make room for a call that is given these.
  void EvictOne(std::optional<size_t> tenant, const Given& given);
  void Unfind(uint32_t block);
  void LetGo(uint32_t block);
  uint32_t Unfilled(size_t session) const;
  uint32_t Room(size_t session, uint32_t shared, bool is_first) const;
  uint32_t QuotaRoom(size_t tenant) const;

  const LedgerOptions options_;
  Chooser chooser_;
  std::vector<ModelBlock> blocks_;
  std::map<std::string, uint32_t> findable_;  // Key to block.
  std::map<size_t, ModelSession> sessions_;
  std::deque<ModelDemand> grow_;
  std::deque<ModelDemand> admit_;
  uint64_t last_use_ = 0;
};

}  // namespace kvpool::test
