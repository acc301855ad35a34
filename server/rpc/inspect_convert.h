#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

#include "core/ledger/status.h"
#include "core/pool.h"
#include "kvpool/v1/inspect.pb.h"
#include "server/peer.h"
#include "server/process_table.h"
#include "server/rpc/convert.h"

namespace kvpool::server {

// Whose eyes inspection is for.
struct Viewer {
  // Of other tenants, and of their sessions, it sees counts and block states alone. Absent: it
  // sees all.
  std::optional<std::string> tenant;

  bool Sees(absl::string_view other) const {
    return !tenant.has_value() || absl::string_view(*tenant) == other;
  }
};

// A worker's viewer is its tenant; inspectors and operators see all.
Viewer ViewerOf(const Peer& peer);

// What inspection knows as messages. Session ids are cut to their first eight characters.

// Of a block of another tenant than the viewer's, the message lacks tenant, holders and history.
// History of the viewer's own block begins with its latest allocation: what was before may have
// been another tenant's. It names the first 1,024 holders.
v1::BlockStatus ToMessage(const BlockInfo& block, const Viewer& viewer, const WallClock& clock);

// As ToMessage, without holders or history.
v1::BlockStatus ToBriefMessage(const BlockInfo& block, const Viewer& viewer);

v1::SessionStatus ToMessage(const SessionInfo& session, absl::string_view pool, ReclaimProof proof,
                            const WallClock& clock);

v1::PoolStatus ToMessage(const Pool& pool, const Viewer& viewer);

v1::ReclaimProof ToMessage(ReclaimProof proof);

v1::SideChecksum ToMessage(const SideChecksum& checksum);

v1::Device ToMessage(const DeviceInfo& device);

// Replaces the tenants that a layout lists by the viewer's own, if it is among them, or by
// "(others)": the names of others are not its business.
void RedactTenants(const Viewer& viewer, v1::PoolLayout& layout);

}  // namespace kvpool::server
