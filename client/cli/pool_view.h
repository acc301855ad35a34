#pragma once

#include <span>
#include <string>

#include <google/protobuf/repeated_ptr_field.h>

#include "kvpool/v1/inspect.pb.h"
#include "kvpool/v1/layout.pb.h"

// Pools as text for people.
namespace kvpool::cli {

// A line a pool: how many blocks are in which state, and who uses it.
std::string PoolsText(const google::protobuf::RepeatedPtrField<v1::PoolStatus>& pools);

// One pool: its states, devices, who may use how much of it, and its layout.
std::string PoolText(const v1::PoolStatus& pool);

// A layout: its geometry, and for each side of each layer every size, offset and stride.
std::string LayoutText(const v1::PoolLayout& layout);

// "host", or "cuda GPU-<uuid> (<name>)".
std::string DeviceText(const v1::Device& device);

}  // namespace kvpool::cli
