#include "client/cli/replay/report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include <json/json.h>

namespace kvpool::replay {

double Percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string CsvField(absl::string_view text) {
  if (text.find_first_of(",\"\r\n") == absl::string_view::npos) return std::string(text);
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string JsonText(const Json::Value& value) {
  Json::StreamWriterBuilder builder;
  builder["indentation"] = "  ";
  builder["precision"] = 3;
  builder["precisionType"] = "decimal";
  return absl::StrCat(Json::writeString(builder, value), "\n");
}

}  // namespace kvpool::replay
