#include "client/cli/json.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include <google/protobuf/util/json_util.h>

#include "client/cli/exit_code.h"
#include "client/cli/text.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvpool::cli {
namespace {

constexpr size_t kMaxSpecBytes = size_t{1} << 20;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content(kMaxSpecBytes + 1, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  // Reading to the end sets failbit beside eofbit; a directory sets badbit, a missing file none.
  if (!file.eof() || file.bad()) {
    if (file.good()) {
      return UsageError(
          absl::StrCat("spec file ", Printable(path), " is longer than ", kMaxSpecBytes, " bytes"));
    }
    return UsageError(absl::StrCat("cannot read spec file ", Printable(path)));
  }
  content.resize(static_cast<size_t>(file.gcount()));
  return content;
}

// Text from elsewhere as one line.
std::string OnOneLine(absl::string_view text) {
  std::string line(text);
  absl::RemoveExtraAsciiWhitespace(&line);
  return Printable(line);
}

// What the parser says in three lines (what is wrong, the text around it, and a '^' below the
// place), as one. The text may have lines of its own.
std::string ParseErrorText(absl::string_view message) {
  const size_t first_end = message.find('\n');
  const size_t last_start = message.rfind('\n');
  if (first_end == last_start || !absl::EndsWith(message, "^")) return OnOneLine(message);
  absl::string_view what = message.substr(0, first_end);
  absl::ConsumeSuffix(&what, ".");
  const absl::string_view around = message.substr(first_end + 1, last_start - first_end - 1);
  const size_t place = std::min(message.size() - last_start - 2, around.size());
  const std::string before = OnOneLine(around.substr(0, place));
  const std::string after = OnOneLine(around.substr(place));
  return absl::StrCat(OnOneLine(what), ", ",
                      after.empty() ? "at the end" : absl::StrCat("at ", after),
                      before.empty() ? "" : absl::StrCat(", after ", before));
}

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
    KVPOOL_ASSIGN_OR_RETURN(json, ReadFile(std::string(text)));
  }
  v1::PoolSpec spec;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &spec);
  if (status.ok()) return spec;
  const auto message = status.message();
  return UsageError(absl::StrCat(
      "the spec is no JSON of a PoolSpec: ",
      ParseErrorText(absl::string_view(message.data(), static_cast<size_t>(message.size()))),
      !is_file && LooksLikePath(text) ? "; a file is read by --spec=@FILE" : ""));
}

std::string ToJsonLine(const google::protobuf::Message& message) {
  std::string json;
  KVPOOL_CHECK(google::protobuf::util::MessageToJsonString(message, &json).ok());
  return json + "\n";
}

}  // namespace kvpool::cli
