#include "client/cli/replay/trace.h"

#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include <json/json.h>

#include "client/cli/replay/line_reader.h"
#include "client/cli/text.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvpool::replay {
namespace {

// A request is an object that holds an array.
constexpr int kMaxDepth = 16;

// TraceParser reads the lines of one file.
class TraceParser {
 public:
  TraceParser(const LineReader& lines, const TraceFormat& format) : lines_(lines), format_(format) {
    Json::CharReaderBuilder builder;
    Json::CharReaderBuilder::strictMode(&builder.settings_);
    builder["stackLimit"] = kMaxDepth;
    reader_.reset(builder.newCharReader());
  }

  // Adds the request that `line` holds.
  absl::Status Parse(const std::string& line, Trace& trace) {
    KVPOOL_RETURN_IF_ERROR(ReadJson(line));
    TraceRequest request;
    KVPOOL_ASSIGN_OR_RETURN(request.time, ReadTime());
    KVPOOL_ASSIGN_OR_RETURN(request.input_tokens, ReadTokens("input_length"));
    KVPOOL_ASSIGN_OR_RETURN(request.output_tokens, ReadTokens("output_length"));
    KVPOOL_RETURN_IF_ERROR(ReadBlocks(request.input_tokens / format_.block_tokens));
    if (!trace.requests().empty() && request.time < trace.requests().back().time) {
      return lines_.Error(absl::StrCat("timestamp is ", request.time.count(), " ms, and ",
                                       trace.requests().back().time.count(),
                                       " ms of the request before"));
    }
    if (trace.block_count() + blocks_.size() > Trace::kMaxBlocks) {
      return lines_.Error(absl::StrCat("the trace has more than ", Trace::kMaxBlocks, " blocks"));
    }
    trace.Add(request, blocks_);
    return absl::OkStatus();
  }

 private:
  absl::Status ReadJson(const std::string& line) {
    std::string errors;
    try {
      if (reader_->parse(line.data(), line.data() + line.size(), &root_, &errors)) {
        return root_.isObject() ? absl::OkStatus() : lines_.Error("the line is no JSON object");
      }
    } catch (const Json::Exception&) {
      return lines_.Error(absl::StrCat("the JSON is more than ", kMaxDepth, " levels deep"));
    }
    // "* Line 1, Column 5\n  Syntax error: ...\n...": what follows the place.
    const size_t place_end = errors.find("\n  ");
    absl::string_view reason = errors;
    if (place_end != std::string::npos) reason.remove_prefix(place_end + 3);
    reason = reason.substr(0, reason.find('\n'));
    return lines_.Error(absl::StrCat("the line is no JSON: ", cli::Printable(reason)));
  }

  absl::Status FieldError(const char* field, const Json::Value& value,
                          absl::string_view what) const {
    if (value.isNull()) return lines_.Error(absl::StrCat(field, " is missing"));
    std::string shown = "an array or object";
    if (!value.isArray() && !value.isObject()) shown = cli::Printable(value.asString());
    return lines_.Error(absl::StrCat(field, " is ", shown.substr(0, 40), ", not ", what));
  }

  absl::StatusOr<std::chrono::milliseconds> ReadTime() const {
    const Json::Value& value = root_["timestamp"];
    const double time_ms =
        value.isNumeric() ? value.asDouble() * static_cast<double>(format_.timestamp_unit.count())
                          : -1;
    if (!(time_ms >= 0 && time_ms <= static_cast<double>(Trace::kMaxTime.count()))) {
      return FieldError("timestamp", value, "a time from 0 to 31 years");
    }
    return std::chrono::milliseconds(std::llround(time_ms));
  }

  absl::StatusOr<uint64_t> ReadTokens(const char* field) const {
    const Json::Value& value = root_[field];
    if (!value.isUInt64() || value.asUInt64() > Trace::kMaxTokens) {
      return FieldError(field, value, absl::StrCat("a count from 0 to ", Trace::kMaxTokens));
    }
    return value.asUInt64();
  }

  absl::Status ReadBlocks(uint64_t count) {
    const Json::Value& ids = root_["hash_ids"];
    if (!ids.isArray()) return FieldError("hash_ids", ids, "an array");
    if (ids.size() < count) {
      return lines_.Error(absl::StrCat("hash_ids has ", ids.size(), " entries; the input fills ",
                                       count, " blocks"));
    }
    blocks_.clear();
    for (const Json::Value& id : ids) {
      if (!id.isUInt64()) {
        return FieldError("an entry of hash_ids", id, "a number from 0 to 2^64 - 1");
      }
      if (blocks_.size() < count) blocks_.push_back(id.asUInt64());
    }
    return absl::OkStatus();
  }

  const LineReader& lines_;
  const TraceFormat format_;
  std::unique_ptr<Json::CharReader> reader_;
  Json::Value root_;
  std::vector<uint64_t> blocks_;
};

}  // namespace

std::chrono::nanoseconds TimeAtSpeed(std::chrono::milliseconds time, double speed) {
  constexpr std::chrono::nanoseconds kCentury = std::chrono::hours(24 * 365 * 100);
  KVPOOL_CHECK(speed > 0);
  const std::chrono::duration<double, std::nano> replayed = time / speed;
  return replayed < kCentury ? std::chrono::duration_cast<std::chrono::nanoseconds>(replayed)
                             : kCentury;
}

absl::StatusOr<Trace> Trace::Read(const std::string& path, const TraceFormat& format) {
  KVPOOL_CHECK(format.block_tokens > 0);
  KVPOOL_ASSIGN_OR_RETURN(LineReader lines, LineReader::Open(path));
  TraceParser parser(lines, format);
  Trace trace;
  for (std::string line;;) {
    KVPOOL_ASSIGN_OR_RETURN(const bool has_line, lines.Next(line));
    if (!has_line) return trace;
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    KVPOOL_RETURN_IF_ERROR(parser.Parse(line, trace));
  }
}

void Trace::Add(TraceRequest request, std::span<const uint64_t> blocks) {
  KVPOOL_CHECK(requests_.empty() || requests_.back().time <= request.time);
  request.first_block = blocks_.size();
  request.block_count = blocks.size();
  requests_.push_back(request);
  blocks_.insert(blocks_.end(), blocks.begin(), blocks.end());
}

}  // namespace kvpool::replay
