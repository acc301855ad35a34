#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include <json/forwards.h>

// What reports of replays are written with.
namespace kvpool::replay {

// 0 of nothing.
double Percent(uint64_t part, uint64_t whole);

// `text` as a field of a CSV file: in quotes where it must be.
std::string CsvField(absl::string_view text);

// On several lines, figures with three decimals, newline at the end.
std::string JsonText(const Json::Value& value);

}  // namespace kvpool::replay
