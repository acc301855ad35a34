#include "proto/convert/json_check.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/json_util.h>
#include <json/json.h>

#include "core/nearest_name.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::OneofDescriptor;

// Deeper than any config is; shallow enough for the stack.
constexpr int kMaxDepth = 32;
constexpr size_t kMaxShownBytes = 80;

// The value as the file has it, on one line and not too long.
std::string Shown(const Json::Value& value) {
  Json::StreamWriterBuilder writer;
  writer["indentation"] = "";
  std::string text = absl::Utf8SafeCHexEscape(Json::writeString(writer, value));
  if (text.size() > kMaxShownBytes) text = absl::StrCat(text.substr(0, kMaxShownBytes), "...");
  return absl::StrReplaceAll(text, {{"\\\"", "\""}});
}

std::string NameOf(const Json::Value& value) {
  switch (value.type()) {
    case Json::objectValue:
      return "an object";
    case Json::arrayValue:
      return "a list";
    default:
      return Shown(value);
  }
}

// "; did you mean num_layers?", or the names that there are.
std::string FieldHint(const Descriptor& type, const std::string& key) {
  std::vector<absl::string_view> both;
  std::vector<absl::string_view> names;
  for (int i = 0; i < type.field_count(); ++i) {
    names.emplace_back(type.field(i)->name());
    both.emplace_back(type.field(i)->name());
    both.emplace_back(type.field(i)->camelcase_name());
  }
  const absl::string_view nearest = NearestName(key, both);
  return nearest.empty()
             ? absl::StrCat("; the fields of ", type.name(), " are ", absl::StrJoin(names, ", "))
             : absl::StrCat("; did you mean ", nearest, "?");
}

// The names of an enum but for its zero, which is how not to give it.
std::string ValueNames(const EnumDescriptor& type) {
  std::vector<absl::string_view> names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0) names.emplace_back(type.value(i)->name());
  }
  return absl::StrJoin(names, ", ");
}

std::string FieldNames(const OneofDescriptor& oneof) {
  std::vector<absl::string_view> names;
  names.reserve(static_cast<size_t>(oneof.field_count()));
  for (int i = 0; i < oneof.field_count(); ++i) names.emplace_back(oneof.field(i)->name());
  return absl::StrJoin(names, ", ");
}

// What an integer has to be, with an example where it is a size: people write "8GB".
absl::string_view WantedInteger(absl::string_view path) {
  return absl::EndsWithIgnoreCase(path, "bytes")
             ? "a whole number of bytes, such as 8589934592 for 8 GiB"
             : "a whole number";
}

// Walks JSON along a message's descriptor. Belongs to one call of ParseJson.
class Checker {
 public:
  explicit Checker(absl::string_view json) : json_(json) {}

  absl::Status CheckMessage(const Json::Value& value, const Descriptor& type,
                            const std::string& path) const;

 private:
  absl::Status CheckField(const Json::Value& value, const FieldDescriptor& field,
                          const std::string& path) const;
  absl::Status CheckValue(const Json::Value& value, const FieldDescriptor& field,
                          const std::string& path) const;
  absl::Status CheckInteger(const Json::Value& value, const std::string& path, bool is_signed,
                            bool is_wide) const;
  absl::Status Error(const Json::Value& value, const std::string& path,
                     absl::string_view message) const;

  const absl::string_view json_;
};

absl::Status Checker::Error(const Json::Value& value, const std::string& path,
                            absl::string_view message) const {
  const absl::string_view before =
      json_.substr(0, static_cast<size_t>(std::max<ptrdiff_t>(0, value.getOffsetStart())));
  const auto line = 1 + std::ranges::count(before, '\n');
  const size_t line_start =
      before.rfind('\n') == absl::string_view::npos ? 0 : before.rfind('\n') + 1;
  return absl::InvalidArgumentError(
      absl::StrCat("line ", line, ", column ", before.size() - line_start + 1, ": ",
                   path.empty() ? "" : absl::StrCat(path, ": "), message));
}

// Fields go by their name or their JSON name; null where there is none such.
const FieldDescriptor* FindField(const Descriptor& type, const std::string& key) {
  if (const FieldDescriptor* field = type.FindFieldByName(key)) return field;
  return type.FindFieldByCamelcaseName(key);
}

absl::Status Checker::CheckMessage(const Json::Value& value, const Descriptor& type,
                                   const std::string& path) const {
  if (!value.isObject()) {
    return Error(value, path, absl::StrCat(NameOf(value), " is not an object"));
  }
  std::set<const FieldDescriptor*> fields;
  std::map<const OneofDescriptor*, absl::string_view> oneofs;  // And which of its fields is given.
  for (const std::string& key : value.getMemberNames()) {
    const Json::Value& member = value[key];
    const std::string inner =
        absl::StrCat(path, path.empty() ? "" : ".", absl::Utf8SafeCHexEscape(key));
    const FieldDescriptor* field = FindField(type, key);
    if (field == nullptr) {
      return Error(
          member, inner,
          absl::StrCat("there is no such field (value ", Shown(member), ")", FieldHint(type, key)));
    }
    if (!fields.insert(field).second) return Error(member, inner, "given twice");
    const OneofDescriptor* oneof = field->real_containing_oneof();
    if (oneof != nullptr) {
      const auto [other, is_only] = oneofs.try_emplace(oneof, field->name());
      if (!is_only) {
        return Error(member, inner,
                     absl::StrCat(Shown(member), ": ", other->second, " is given too; give one of ",
                                  FieldNames(*oneof)));
      }
    }
    KVPOOL_RETURN_IF_ERROR(CheckField(member, *field, inner));
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckField(const Json::Value& value, const FieldDescriptor& field,
                                 const std::string& path) const {
  if (!field.is_repeated()) return CheckValue(value, field, path);
  if (!value.isArray()) return Error(value, path, absl::StrCat(NameOf(value), " is not a list"));
  for (Json::ArrayIndex i = 0; i < value.size(); ++i) {
    KVPOOL_RETURN_IF_ERROR(CheckValue(value[i], field, absl::StrCat(path, "[", i, "]")));
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckValue(const Json::Value& value, const FieldDescriptor& field,
                                 const std::string& path) const {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return CheckMessage(value, *field.message_type(), path);
    case FieldDescriptor::CPPTYPE_STRING:
      if (value.isString()) return absl::OkStatus();
      return Error(value, path, absl::StrCat(NameOf(value), " is not a string"));
    case FieldDescriptor::CPPTYPE_BOOL:
      if (value.isBool()) return absl::OkStatus();
      return Error(value, path, absl::StrCat(NameOf(value), " is not true or false"));
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      if (value.isNumeric()) return absl::OkStatus();
      return Error(value, path, absl::StrCat(NameOf(value), " is not a number"));
    case FieldDescriptor::CPPTYPE_ENUM:
      if (value.isString() && field.enum_type()->FindValueByName(value.asString()) != nullptr) {
        return absl::OkStatus();
      }
      return Error(value, path,
                   absl::StrCat(NameOf(value), " is not one of ", ValueNames(*field.enum_type())));
    case FieldDescriptor::CPPTYPE_INT32:
      return CheckInteger(value, path, /*is_signed=*/true, /*is_wide=*/false);
    case FieldDescriptor::CPPTYPE_UINT32:
      return CheckInteger(value, path, /*is_signed=*/false, /*is_wide=*/false);
    case FieldDescriptor::CPPTYPE_INT64:
      return CheckInteger(value, path, /*is_signed=*/true, /*is_wide=*/true);
    case FieldDescriptor::CPPTYPE_UINT64:
      return CheckInteger(value, path, /*is_signed=*/false, /*is_wide=*/true);
  }
  return Error(value, path, "is of a type that is not supported");
}

absl::Status Checker::CheckInteger(const Json::Value& value, const std::string& path,
                                   bool is_signed, bool is_wide) const {
  std::string digits;
  if (value.type() == Json::intValue || value.type() == Json::uintValue) {
    digits = value.asString();
  } else if (value.isString() && is_wide) {
    // Numbers over 2^53 are strings to many programs that write JSON.
    digits = value.asString();
    const size_t sign = is_signed && !digits.empty() && digits[0] == '-' ? 1 : 0;
    const auto is_digit = [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); };
    if (digits.size() == sign ||
        !std::all_of(digits.begin() + static_cast<ptrdiff_t>(sign), digits.end(), is_digit)) {
      return Error(value, path, absl::StrCat(Shown(value), " is not ", WantedInteger(path)));
    }
  } else {
    return Error(value, path, absl::StrCat(NameOf(value), " is not ", WantedInteger(path)));
  }
  int64_t signed_value = 0;
  uint64_t unsigned_value = 0;
  const bool fits = is_signed
                        ? absl::SimpleAtoi(digits, &signed_value) &&
                              (is_wide || (signed_value >= std::numeric_limits<int32_t>::min() &&
                                           signed_value <= std::numeric_limits<int32_t>::max()))
                        : absl::SimpleAtoi(digits, &unsigned_value) &&
                              (is_wide || unsigned_value <= std::numeric_limits<uint32_t>::max());
  if (fits) return absl::OkStatus();
  return Error(value, path,
               absl::StrCat(Shown(value), " is out of range for ", is_signed ? "a " : "an un",
                            "signed ", is_wide ? "64" : "32", "-bit number"));
}

// One line of what jsoncpp says: "* Line 3, Column 5\n  Syntax error: ...\n...".
std::string FirstSyntaxError(const std::string& errors) {
  std::string line = errors.substr(0, errors.find('\n', errors.find('\n') + 1));
  line = absl::StrReplaceAll(line, {{"* Line", "line"}, {", Column", ", column"}, {"\n  ", ": "}});
  // It shows a key that is given twice as it is.
  std::ranges::replace_if(
      line, [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); }, '?');
  return line;
}

// jsoncpp leaves out comments in objects and arrays, whatever it is told. JSON has a slash in texts
// alone.
absl::Status RefuseComments(absl::string_view json) {
  bool is_in_text = false;
  size_t line = 1;
  size_t line_start = 0;
  for (size_t i = 0; i < json.size(); ++i) {
    if (is_in_text && json[i] == '\\') {
      ++i;  // What follows does not end the text.
    } else if (json[i] == '"') {
      is_in_text = !is_in_text;
    } else if (json[i] == '\n') {
      ++line;
      line_start = i + 1;
    } else if (json[i] == '/' && !is_in_text) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", line, ", column ", i - line_start + 1,
                       ": '/' outside of a text; there are no comments"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadSyntax(absl::string_view json, Json::Value& root) {
  Json::CharReaderBuilder builder;
  Json::CharReaderBuilder::strictMode(&builder.settings_);
  builder["stackLimit"] = kMaxDepth;
  const std::unique_ptr<Json::CharReader> reader(builder.newCharReader());
  std::string errors;
  try {
    if (reader->parse(json.data(), json.data() + json.size(), &root, &errors)) {
      return absl::OkStatus();
    }
  } catch (const Json::Exception& exception) {  // Nested too deeply.
    errors = absl::StrCat("more than ", kMaxDepth, " levels deep: ", exception.what());
  }
  return absl::InvalidArgumentError(FirstSyntaxError(errors));
}

}  // namespace

absl::Status ParseJson(absl::string_view json, google::protobuf::Message& message) {
  Json::Value root;
  KVPOOL_RETURN_IF_ERROR(RefuseComments(json));
  KVPOOL_RETURN_IF_ERROR(ReadSyntax(json, root));
  KVPOOL_RETURN_IF_ERROR(Checker(json).CheckMessage(root, *message.GetDescriptor(), ""));
  const google::protobuf::util::Status status =
      google::protobuf::util::JsonStringToMessage(std::string(json), &message);
  if (status.ok()) return absl::OkStatus();
  // What the walk let pass and protobuf does not: invalid UTF-8, say.
  // It shows the text after the first line, as it is.
  const std::string error = status.ToString();
  return absl::InvalidArgumentError(absl::Utf8SafeCHexEscape(error.substr(0, error.find('\n'))));
}

}  // namespace kvpool
