#include "client/cli/json.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include <google/protobuf/util/json_util.h>

#include "client/cli/bounded_file.h"
#include "client/cli/exit_code.h"
#include "client/cli/text.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "proto/convert/json_check.h"

namespace kvpool::cli {
namespace {

constexpr size_t kMaxSpecBytes = size_t{1} << 20;

// JSON of a spec begins with a brace.
bool LooksLikePath(absl::string_view text) {
  text = absl::StripLeadingAsciiWhitespace(text);
  return !text.empty() && text.front() != '{';
}

}  // namespace

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  std::string json;
  // Fails only for messages that hold an Any of an unknown type; ours hold none.
  KVPOOL_CHECK(google::protobuf::util::MessageToJsonString(message, &json, options).ok());
  return absl::StrCat(absl::StripSuffix(json, "\n"), "\n");
}

absl::StatusOr<v1::PoolSpec> ReadSpec(absl::string_view text) {
  std::string json(text);
  const bool is_file = absl::ConsumePrefix(&text, "@");
  if (is_file) {
    KVPOOL_ASSIGN_OR_RETURN(json, ReadBounded(std::string(text), "spec file", kMaxSpecBytes));
  }
  v1::PoolSpec spec;
  const absl::Status status = ParseJson(json, spec);
  if (status.ok()) return spec;
  return UsageError(absl::StrCat(
      "the spec is no JSON of a PoolSpec: ", Printable(absl::StripSuffix(status.message(), ".")),
      !is_file && LooksLikePath(text) ? "; a file is read by --spec=@FILE" : ""));
}

std::string ToJsonLine(const google::protobuf::Message& message) {
  std::string json;
  KVPOOL_CHECK(google::protobuf::util::MessageToJsonString(message, &json).ok());
  return json + "\n";
}

}  // namespace kvpool::cli
