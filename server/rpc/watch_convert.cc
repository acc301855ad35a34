#include "server/rpc/watch_convert.h"

#include <string>

#include "server/rpc/convert.h"

namespace kvpool::server {
namespace {

// For whoever reads logs of what a listener was told.
constexpr char kResyncReason[] =
    "the changes after the number asked for, or told last, are not kept any more: watch anew, from "
    "a snapshot";

void FillStored(const PrefixEvent& event, uint32_t block_size,
                v1::WatchPrefixesResponse::Stored& stored) {
  for (const PrefixKey& key : event.keys) *stored.add_keys() = std::string(key.view());
  FromBlockRefs(event.blocks, *stored.mutable_blocks());
  if (event.parent.has_value()) stored.set_parent_key(std::string(event.parent->view()));
  stored.set_block_size(block_size);
  stored.set_model_id(event.model_id);
  stored.set_adapter(event.adapter);
  stored.set_tenant(event.tenant.value_or(""));
  stored.mutable_tokens()->Add(event.tokens.begin(), event.tokens.end());
}

}  // namespace

void FromPrefixEvent(const PrefixEvent& event, uint32_t block_size,
                     v1::WatchPrefixesResponse& message) {
  message.set_sequence(event.sequence);
  switch (event.kind) {
    case PrefixEvent::Kind::kStored:
      FillStored(event, block_size, *message.mutable_stored());
      break;
    case PrefixEvent::Kind::kRemoved:
      for (const PrefixKey& key : event.keys) {
        *message.mutable_removed()->add_keys() = std::string(key.view());
      }
      break;
    case PrefixEvent::Kind::kCleared:
      message.mutable_cleared()->set_tenant(event.tenant.value_or(""));
      break;
    case PrefixEvent::Kind::kSnapshotEnd:
      message.mutable_snapshot_end();
      break;
    case PrefixEvent::Kind::kResync:
      message.mutable_resync()->set_reason(kResyncReason);
      break;
  }
}

}  // namespace kvpool::server
