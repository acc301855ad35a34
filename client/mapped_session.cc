#include "client/mapped_session.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace kvpool::client {

MappedSession::MappedSession(std::unique_ptr<Session> session, std::vector<Mapping> mappings)
    : session_(std::move(session)), mappings_(std::move(mappings)) {}

Mapping& MappedSession::mapping(uint32_t shard) {
  const auto mapping = std::ranges::find(mappings_, shard, &Mapping::shard);
  KVPOOL_CHECK(mapping != mappings_.end());
  return *mapping;
}

}  // namespace kvpool::client
