#pragma once

#include <optional>

#include "absl/status/statusor.h"

#include "core/layout/pool_layout.h"
#include "kvpool/v1/layout.pb.h"

// Between the API's messages and core's own types. Nothing is judged here but what core cannot
// hold: PlanPool says whether a spec is right.
namespace kvpool {

// INVALID_ARGUMENT, naming field and value, where an enum has a number that the API does not know.
// UNSPECIFIED becomes what the API says it means.
absl::StatusOr<PoolSpec> SpecFromProto(const v1::PoolSpec& message);

// SpecFromProto gives `spec` back. Where more than one size is set, which PlanPool refuses, the
// message has one of them.
v1::PoolSpec SpecToProto(const PoolSpec& spec);

// Absent: a number that is no Fill.
std::optional<Fill> FillFromProto(v1::Fill fill);
v1::Fill FillToProto(Fill fill);

// LayoutFromProto gives `layout` back.
v1::PoolLayout LayoutToProto(const PoolLayout& layout);

// What a daemon answered. INVALID_ARGUMENT, naming the field, where it is none that this version
// knows: an unknown enum number or dtype, a pair as a side's dtype, a layer without K.
absl::StatusOr<PoolLayout> LayoutFromProto(const v1::PoolLayout& message);

}  // namespace kvpool
