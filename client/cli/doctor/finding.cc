#include "client/cli/doctor/finding.h"

#include <algorithm>

#include <json/json.h>

#include "client/cli/table.h"

namespace kvpool::cli {

absl::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "OK";
    case Verdict::kWarn:
      return "WARN";
    case Verdict::kFail:
      break;
  }
  return "FAIL";
}

bool HasFailure(std::span<const Finding> findings) {
  return std::ranges::count(findings, Verdict::kFail, &Finding::verdict) > 0;
}

std::string FindingsText(std::span<const Finding> findings) {
  Table table;
  for (const Finding& finding : findings) {
    table.AddRow(
        {std::string(VerdictName(finding.verdict)), std::string(finding.check), finding.text});
  }
  return table.ToString();
}

std::string FindingsJson(std::span<const Finding> findings) {
  Json::Value checks(Json::arrayValue);
  for (const Finding& finding : findings) {
    Json::Value check(Json::objectValue);
    check["check"] = std::string(finding.check);
    check["result"] = std::string(VerdictName(finding.verdict));
    check["text"] = finding.text;
    checks.append(check);
  }
  Json::Value all(Json::objectValue);
  all["checks"] = checks;
  Json::StreamWriterBuilder builder;
  builder["indentation"] = "  ";
  return Json::writeString(builder, all) + "\n";
}

}  // namespace kvpool::cli
