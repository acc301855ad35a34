#pragma once

#include "absl/status/status.h"

#include "kvpool/v1/block.pb.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {

// The calls of BlockService that find blocks by prefix, make them findable, or no more.
absl::Status Publish(const ServiceContext& context, const Peer& peer,
                     const v1::PublishRequest& request, v1::PublishResponse& response);
absl::Status Lookup(const ServiceContext& context, const Peer& peer,
                    const v1::LookupRequest& request, v1::LookupResponse& response);
absl::Status Evict(const ServiceContext& context, const Peer& peer, const v1::EvictRequest& request,
                   v1::EvictResponse& response);

}  // namespace kvpool::server
