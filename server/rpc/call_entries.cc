#include "server/rpc/call_entries.h"

namespace kvpool::server {

int64_t EntriesOf(const v1::Prefix& prefix) {
  constexpr int64_t kTokensAnEntry = 16;
  return prefix.tokens_size() / kTokensAnEntry + prefix.block_hashes_size() + prefix.extras_size();
}

int64_t EntriesOf(const v1::AllocRequest& request) {
  return int64_t{request.count()} + request.release().block_ids_size();
}

int64_t EntriesOf(const v1::IncRefRequest& request) { return request.blocks().block_ids_size(); }

int64_t EntriesOf(const v1::DecRefRequest& request) { return request.blocks().block_ids_size(); }

int64_t EntriesOf(const v1::PublishRequest& request) {
  return EntriesOf(request.prefix()) + request.blocks().block_ids_size();
}

int64_t EntriesOf(const v1::LookupRequest& request) { return 2 * EntriesOf(request.prefix()); }

int64_t EntriesOf(const v1::AcquireRequest& request) {
  return int64_t{request.total_blocks()} + EntriesOf(request.prefix());
}

int64_t EntriesOf(const v1::EvictRequest& request) {
  return int64_t{request.count()} + request.blocks().block_ids_size();
}

int64_t EntriesOf(const v1::PipelineRequest::Call& call) {
  using Call = v1::PipelineRequest::Call;
  switch (call.call_case()) {
    case Call::kAlloc:
      return EntriesOf(call.alloc());
    case Call::kIncRef:
      return EntriesOf(call.inc_ref());
    case Call::kDecRef:
      return EntriesOf(call.dec_ref());
    case Call::kPublish:
      return EntriesOf(call.publish());
    case Call::kLookup:
      return EntriesOf(call.lookup());
    case Call::kAcquire:
      return EntriesOf(call.acquire());
    case Call::kEvict:
      return EntriesOf(call.evict());
    case Call::CALL_NOT_SET:
      break;
  }
  return 0;
}

}  // namespace kvpool::server
