#pragma once

#include <cstdint>

#include "kvpool/v1/block.pb.h"

namespace kvpool::server {

// How many entries of a block each the work on a call, or on a prefix, is worth, for PlaceFor. 16
// tokens take as long to hash as a block's entry does otherwise.
int64_t EntriesOf(const v1::Prefix& prefix);
int64_t EntriesOf(const v1::AllocRequest& request);
int64_t EntriesOf(const v1::IncRefRequest& request);
int64_t EntriesOf(const v1::DecRefRequest& request);
int64_t EntriesOf(const v1::PublishRequest& request);
int64_t EntriesOf(const v1::LookupRequest& request);
int64_t EntriesOf(const v1::AcquireRequest& request);
int64_t EntriesOf(const v1::EvictRequest& request);
int64_t EntriesOf(const v1::PipelineRequest::Call& call);

}  // namespace kvpool::server
